#pragma once

#include <ATen/ATen.h>
#include <stiefel/export.h>

#include <vector>

namespace stiefel::detail {

/// The learning rate of a parameter group: the host's number, and copies of it on the devices of the group's
/// parameters, so that a step reads no host memory there.
class STIEFEL_API GroupRate {
 public:
  /// Writes `value` to the copies where it has changed.
  void set(double value);

  double value() const { return value_; }

  /// The rate as a 0-dim tensor on a device, made at its first use.
  at::Tensor on(const at::Device& device, at::ScalarType type = at::kDouble);

  bool has_copies() const { return !copies_.empty(); }

 private:
  double value_ = -1;
  std::vector<at::Tensor> copies_;
};

}  // namespace stiefel::detail
