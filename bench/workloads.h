#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// What is stepped: lists of weights, as a network or a user has them.
namespace stiefel::bench {

/// `count` weights of one shape. A weight (p, …) is the row matrix p×n with n the product of the other sizes;
/// a batched one (B, p, n) is a stack of B such matrices.
struct Layer {
  std::vector<int64_t> sizes;
  int64_t count = 1;
  bool batched = false;

  int64_t p() const { return batched ? sizes[1] : sizes[0]; }
  int64_t n() const;
  int64_t matrices() const { return batched ? sizes[0] * count : count; }
};

struct Workload {
  std::string name;   ///< as options take it
  std::string title;  ///< as people read it
  std::vector<Layer> layers;

  int64_t weights() const;
  int64_t matrices() const;
};

/// One weight PxN, a stack of B such matrices in one weight, PxNxB, or C weights of that shape, PxN*C. Throws
/// std::invalid_argument where it is none of these.
Workload shape_workload(const std::string& shape);

}  // namespace stiefel::bench
