#pragma once

#include <string>

namespace stiefel::runs {

/// What the first GPU calls itself, and how many there are where there are more; empty without one.
std::string gpu_name();

}  // namespace stiefel::runs
