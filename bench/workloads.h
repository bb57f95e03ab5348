#pragma once

#include <cstdint>
#include <string>
#include <vector>

/// What is stepped: lists of weights, as a network or a user has them.
namespace stiefel::bench {

/// `count` weights of one shape. A weight (p, …) is the row matrix p×n with n the product of the rest; a
/// batched one (B, p, n) is a stack of B such matrices.
struct Layer {
  std::vector<int64_t> sizes;
  int64_t count = 1;
  bool batched = false;

  int64_t p() const { return batched ? sizes[1] : sizes[0]; }
  int64_t n() const;
  int64_t matrices() const { return batched ? sizes[0] * count : count; }
};

struct Workload {
  std::string name;   ///< as it appears in --benchmark_filter
  std::string title;  ///< as it appears in the table
  std::vector<Layer> layers;
  bool large =
      false;  ///< a whole network: few runs, the slowest peers by one matrix a shape, not for --quick

  int64_t weights() const;
  int64_t matrices() const;
};

std::vector<Workload> workloads(bool quick);

}  // namespace stiefel::bench
