#pragma once

#include <stiefel/detail/arg.h>
#include <stiefel/export.h>
#include <torch/optim/optimizer.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace stiefel {

struct STIEFEL_API OverlapOptions {
  /// How many parts there may be on a device. With many, the first begins early and the last is small; with
  /// few, more matrices are computed together.
  STIEFEL_ARG(OverlapOptions, int64_t, parts, parts_)

  void validate() const;

 private:
  int64_t parts_ = 4;
};

/// Steps the weights on the manifold while the backward pass still goes on: a matrix can move as soon as its
/// gradient is there. Whether that saves time depends on the device and the network: on an H200 it has not
/// (docs/performance.md).
///
///     stiefel::OverlappedStep overlapped(optimizer);
///     for (const auto& batch : batches) {
///       optimizer.zero_grad();
///       overlapped.backward_and_step(loss_of(batch));
///     }
///
/// The first backward pass shows in which order gradients arrive, and its step is a plain one. From then on
/// the weights are divided into a few parts in that order, of about the same work, np² + p³ per matrix, and a
/// part is stepped when all of its gradients are there: on an accelerator on a stream of its own, which
/// finish() joins, so it can be captured into a CUDA graph; on the CPU at once, which saves no time. finish()
/// steps everything else: Euclidean groups, other optimisers, and weights whose gradients came otherwise than
/// in the last pass, after which the order is learnt again.
///
/// Every weight, momentum and count ends with the bits that plain steps give it (on an accelerator where
/// each pass gives gradients to the same weights). Matrices that a step computes in one batch stay in one
/// part: on a GPU those of one shape, except in mixed precision, where kernels compute each one alone.
///
/// A gradient is final when its accumulator has run, and everything that carried it has then read the weight.
/// What reads a weight without sending it a gradient, such as weight.detach() in the same network, may come
/// later: autograd then throws its error about a variable that was modified in place. The same goes for a
/// second backward pass through a retained graph; begin() before the last pass only.
class STIEFEL_API OverlappedStep {
 public:
  /// The optimisers, which must outlive it, have different parameters. Those that are ManifoldOptimizers are
  /// stepped in parts, others in finish(). One whose steps are shared among ranks cannot be: begin() throws.
  explicit OverlappedStep(torch::optim::Optimizer& optimizer, OverlapOptions options = {});
  explicit OverlappedStep(std::vector<torch::optim::Optimizer*> optimizers, OverlapOptions options = {});
  ~OverlappedStep();
  OverlappedStep(const OverlappedStep&) = delete;
  OverlappedStep& operator=(const OverlappedStep&) = delete;

  /// The backward pass of a loss, and the step.
  void backward_and_step(const at::Tensor& loss);

  /// The same for passes of your own, as Optimizer::step(closure) has it: the closure computes the loss,
  /// calls backward() once, and returns the loss.
  at::Tensor step(const torch::optim::Optimizer::LossClosure& closure);

  /// Before the backward pass, on the stream of the forward pass, with the learning rates of the step; before
  /// the forward pass too where that runs on another stream than in the last step, as under a capture. Until
  /// finish() nothing else may write the weights or step the optimisers.
  void begin();

  /// After it, on the same stream.
  void finish();

  /// Instead of finish() where the backward pass has failed: weights whose part was stepped stay so, the
  /// others stay where they are. The calls above do so themselves; nothing where no step is under way.
  void cancel();

  /// The weights of each part, in the order in which parts are stepped; empty until the first finish().
  std::vector<std::vector<at::Tensor>> parts() const;

  /// How many weights the last backward pass has stepped.
  int64_t stepped_behind() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stiefel
