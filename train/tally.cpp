#include "tally.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#if STIEFEL_HAS_CUDA
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include "cuda/tally.h"
#endif

namespace stiefel::train {

Tally::Tally(const c10::Device& device)
    : loss_sum(at::zeros({}, at::TensorOptions(at::kDouble).device(device))),
      wrong(at::zeros({}, at::TensorOptions(at::kLong).device(device))) {}

void Tally::reset(double losses, int64_t wrongs) {
  loss_sum.fill_(losses);
  wrong.fill_(wrongs);
}

void Tally::add(const Task& task, const at::Tensor& loss, const at::Tensor& scores,
                const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
#if STIEFEL_HAS_CUDA
  // One launch where five small kernels would show in a step of a millisecond.
  if (scores.is_cuda() && task.counts_classes() && scores.scalar_type() == at::kFloat && scores.dim() == 2 &&
      scores.is_contiguous() && loss.scalar_type() == at::kFloat) {
    cuda::tally(scores.data_ptr<float>(), targets.data_ptr<int64_t>(), loss.data_ptr<float>(), scores.size(0),
                scores.size(1), loss_sum.data_ptr<double>(), wrong.data_ptr<int64_t>(),
                c10::cuda::getCurrentCUDAStream());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return;
  }
#endif
  loss_sum.add_(loss.detach());
  wrong.add_(task.wrong(scores, targets));
}

}  // namespace stiefel::train
