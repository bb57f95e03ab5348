#pragma once

#include <ATen/ATen.h>
#include <stiefel/ranks.h>

#include <functional>
#include <vector>

namespace stiefel::detail {

/// Tensors that are summed over all ranks in one message. All are (B, …) of one device and one real type, or
/// complex of it; the tensors that were added are replaced by their sums.
class PackedSum {
 public:
  void add(at::Tensor& tensor);

  /// Hermitian matrices: only their upper triangles travel.
  void add_hermitian(at::Tensor& matrices);

  /// Doubles among floats: each travels as two floats, with twice the digits of one.
  void add_doubles(at::Tensor& numbers, at::ScalarType type);

  void run(Ranks& ranks);

 private:
  void add_part(const at::Tensor& part, std::function<void(const at::Tensor&)> take);

  std::vector<at::Tensor> parts_;                               // real and flat
  std::vector<std::function<void(const at::Tensor&)>> takers_;  // of the sum of each
};

}  // namespace stiefel::detail
