#pragma once

#include <stiefel/ranks.h>

#include <memory>

#include "models/network.h"
#include "train/methods.h"
#include "train/resolve_config.h"

namespace stiefel::train {

/// The network that a config describes, for its task, with its layers. Throws std::invalid_argument where the
/// network does not suit the task. With `--sync-norm` its batch normalisation is over the batches of these
/// ranks, where there are any.
std::shared_ptr<models::Network> make_network(const Config& config, std::shared_ptr<Ranks> ranks = nullptr);

/// The network of a run before its first step: on the device, its weights drawn by the seed and, for a
/// constrained method, orthonormal where they go on the manifold.
std::shared_ptr<models::Network> make_initial_network(const Config& config, const c10::Device& device,
                                                      std::shared_ptr<Ranks> ranks = nullptr);

/// Which of its parameters the config's optimiser keeps orthonormal, and the others: all of them where it
/// keeps none.
ParameterSplit split_for(const models::Network& network, const Config& config);

/// The optimisers of the config's method for a network's parameters.
Optimizers make_optimizers(const models::Network& network, const Config& config);

}  // namespace stiefel::train
