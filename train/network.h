#pragma once

#include <memory>

#include "config.h"
#include "models/classifier.h"

namespace stiefel::train {

/// The network that a config describes, with its layers, for images of so many channels and classes.
std::shared_ptr<models::Classifier> make_network(const Config& config, int64_t channels, int64_t classes);

}  // namespace stiefel::train
