#pragma once

#include <ATen/ATen.h>

#include <string>
#include <vector>

/// The rate of the machine's own matrix product, which a step is measured against.
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

/// The first is the reference: large and square.
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

}  // namespace stiefel::bench
