#pragma once

#include <ATen/ATen.h>

#include <string>
#include <utility>
#include <vector>

/// The rate of LibTorch's matrix product on the CPU, with which the rate of a step is compared.
namespace stiefel::bench {

/// A product of rows×inner by inner×columns.
struct Gemm {
  std::string name;
  std::string title;
  int64_t rows;
  int64_t inner;
  int64_t columns;
  bool second_transposed = false;

  double operations() const;
};

/// The products that are timed. The first is the reference: large and square.
std::vector<Gemm> gemms();

/// One product over and over, in float.
class GemmRun {
 public:
  explicit GemmRun(const Gemm& gemm);
  /// Takes the product once and returns the seconds it took.
  double step();

 private:
  at::Tensor a_;
  at::Tensor b_;
  at::Tensor result_;
};

/// The rate of each product in GFLOP/s: the median of as many rounds, each of which takes all of them.
std::vector<std::pair<Gemm, double>> gemm_rates(int64_t rounds);

}  // namespace stiefel::bench
