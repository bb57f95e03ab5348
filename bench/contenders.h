#pragma once

#include <stiefel/cayley.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "network_workload.h"
#include "run.h"
#include "runs/config.h"

/// Every method that `stiefel bench` sets side by side, under the names of the paper's Table 3.
namespace stiefel::bench {

/// What a step is taken on: weights, and where they are a network's, its activations.
struct Subject {
  Workload weights;
  std::optional<NetworkWorkload> network;
  Precision precision = Precision::kMixed;  ///< of Cayley steps on a GPU; elsewhere they are full
};

struct Contender {
  std::string name;
  std::string operations;  ///< floating-point operations of a step on a p×n weight, less SGD's own
  std::string lacks;       ///< what Cayley SGD gives and this does not
  bool constrained;        ///< whether it keeps weights orthonormal, so that their defect means something
  bool needs_network;      ///< whether it needs more than the weights
  bool by_default;         ///< whether it runs unless `--methods` says otherwise

  std::function<std::unique_ptr<Run>(const Subject&, const at::Device&)> begin;  ///< for the step alone
  std::function<void(runs::Config&)> configure;                                  ///< for whole training steps
};

const std::vector<Contender>& contenders();

/// Those with these names, in this order; all the usual ones where there are none. Throws
/// std::invalid_argument naming what there is where a name is unknown.
std::vector<Contender> choose_contenders(const std::vector<std::string>& names);

}  // namespace stiefel::bench
