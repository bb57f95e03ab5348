#pragma once

#include <string>

namespace stiefel::record {

/// What the first GPU calls itself, and how many there are where there are more; empty without one.
std::string gpu_name();

}  // namespace stiefel::record
