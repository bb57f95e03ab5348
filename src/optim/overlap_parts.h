#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stiefel::detail {

/// What is stepped together and when it can be.
struct OverlapUnit {
  size_t last_arrival;  ///< of its gradients, in the order of a backward pass
  double work;          ///< np² + p³ per matrix
};

/// Divides units, by their index, into at most `parts` lists of about the same work, in the order in which
/// their gradients are complete. The last list, which a backward pass no longer hides, is the smallest.
std::vector<std::vector<size_t>> divide_by_arrival(const std::vector<OverlapUnit>& units, int64_t parts);

}  // namespace stiefel::detail
