#pragma once

#include "record/config.h"

namespace stiefel::train {

using record::Config;

/// Fills what the user left to the method and the data set, and checks every value. Throws
/// std::invalid_argument naming the option, its value and what is allowed.
void resolve(Config& config);

}  // namespace stiefel::train
