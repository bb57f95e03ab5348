#pragma once

#include <cstdint>
#include <vector>

namespace stiefel::detail {

struct MatrixShape {
  int64_t p, n;
};

/// While it lives, the steps that this thread takes are parts of one step of the matrices `whole`. Kernels
/// that cut sums by what is stepped together cut them as in the whole step, so that a matrix ends with the
/// same bits.
class PartOfStep {
 public:
  /// An empty list: the step is no part.
  explicit PartOfStep(std::vector<MatrixShape> whole);
  ~PartOfStep();
  PartOfStep(const PartOfStep&) = delete;
  PartOfStep& operator=(const PartOfStep&) = delete;

  /// The matrices of the whole step; empty where the current one is no part.
  static const std::vector<MatrixShape>& whole();

 private:
  std::vector<MatrixShape> before_;
};

}  // namespace stiefel::detail
