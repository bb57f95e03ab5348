#pragma once

#include <stiefel/ranks.h>

#include <string>

namespace stiefel::detail {

/// The ranks of a name, while they live. Throws where there are none.
Ranks& find_ranks(const std::string& name);

}  // namespace stiefel::detail
