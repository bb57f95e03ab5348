#pragma once

#include <ATen/ATen.h>
#include <stiefel/manifold.h>

#include <functional>
#include <optional>
#include <vector>

/// The tensors of a step, as its caller holds them, turned into matrices and checked.
namespace stiefel::detail {

/// What a step counts, 0-dim int64 tensors on the device of the points.
struct StepCounters {
  at::Tensor skipped;       ///< matrices that were left in place, for whatever reason
  at::Tensor off_manifold;  ///< those of them that were too far off the manifold; undefined: not counted
};

/// The weights, momenta and gradients of a step, each as (B, p, n) with p ≤ n. A tensor whose layout allows
/// it is read and written in place, channels-last weights included; any other is copied, and `write_back`
/// returns the points and momenta to where they came from.
class StepMatrices {
 public:
  /// Throws where the lists do not match, where a tensor has the wrong type, shape or device, and where two
  /// of the tensors that a step writes overlap in memory. A method without momentum gives no momenta.
  StepMatrices(at::TensorList weights, at::TensorList momenta, at::TensorList gradients, bool batched);

  void write_back() const;

  /// The number of matrices of a weight, and of all weights.
  int64_t count(size_t weight) const { return points[weight].size(0); }
  std::vector<int64_t> counts() const;

  std::vector<at::Tensor> points, momenta, gradients;

 private:
  at::TensorList weights_, home_momenta_;
  std::vector<std::optional<MatrixView>> views_;  // none where a weight is (B, p, n) already
};

/// Throws where the lists of a step do not match, or a tensor has the wrong type, shape or device. Reads no
/// memory, so tensors on the meta device may be checked. A method without momentum gives no momenta.
void check_step_tensors(at::TensorList weights, at::TensorList momenta, at::TensorList gradients);

/// Throws unless every point comes with a momentum.
void check_momenta(at::TensorList points, at::TensorList momenta);

/// Throws unless `rate` is one real number and the counters are one int64 each, all on `device`.
void check_scalars(const at::Tensor& rate, const StepCounters& counters, const at::Device& device);

/// Throws unless each tensor of `list` holds one double per matrix of its weight, which has `counts` of them,
/// on the points' device.
void check_numbers(at::TensorList list, const char* name, const std::vector<int64_t>& counts,
                   const at::Device& device);

/// Throws where two tensors share memory, or one shares it with itself: a step would write it twice.
void check_no_overlap(const std::vector<at::Tensor>& written);

/// How far off the manifold the worst matrix of a weight is: ‖XᴴX − I‖, infinite where it is not a number.
double farthest(const at::Tensor& weight, bool batched);

/// Throws the error of matrices that a step left because they are too far off the manifold, the worst of them
/// in `weight`.
[[noreturn]] void fail_off_manifold(int64_t matrices, const at::Tensor& weight, bool batched);

/// The same of weights of which no rank has all.
[[noreturn]] void fail_sharded_off_manifold(int64_t matrices);

/// Checks a step's arguments, and runs `step` on the matrices and counters. Where the caller counts no
/// matrices off the manifold, the step on a CPU does, and throws once everything else has moved.
void run_step(at::TensorList weights, at::TensorList momenta, at::TensorList gradients,
              const at::Tensor& rate, StepCounters counters, bool batched,
              const std::function<void(const StepMatrices&, const StepCounters&)>& step);

}  // namespace stiefel::detail
