#pragma once

#include <string>

#include "train/resolve_config.h"

namespace stiefel::train {

/// Sets the options by which a config trains by a method of any family: `--optim`, and for a penalty, a
/// parametrisation or a normalisation, which SGD trains, its own option. "+m" after a retraction's name gives
/// it Cayley SGD's momentum. A penalty needs its weight besides. Throws std::invalid_argument where there is
/// no such method.
void select_method(Config& config, const std::string& name);

}  // namespace stiefel::train
