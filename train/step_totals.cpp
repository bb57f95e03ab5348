#include "step_totals.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <utility>

namespace stiefel::train {

StepTotals::StepTotals(std::shared_ptr<distributed::World> world, const c10::Device& device)
    : world_(std::move(world)),
      own_(device),
      asks_(at::zeros({}, at::TensorOptions(at::kDouble).device(device))),
      numbers_(at::zeros({3}, at::TensorOptions(at::kDouble).device(device))) {}

void StepTotals::ask_to_stop() { asks_.fill_(1); }

void StepTotals::start(const Task& task, const at::Tensor& loss, const at::Tensor& scores,
                       const at::Tensor& targets) {
  const at::NoGradGuard no_grad;
  own_.reset();
  own_.add(task, loss, scores, targets);
  numbers_.copy_(at::stack({own_.loss_sum, own_.wrong.to(at::kDouble), asks_}));
  sum_ = world_->start_sum_(numbers_);
}

void StepTotals::finish(Tally& tally) {
  const at::NoGradGuard no_grad;
  sum_->wait();
  sum_.reset();
  // Every rank's loss is the mean over an equal part of the batch.
  tally.loss_sum.add_(numbers_[0] / static_cast<double>(world_->size()));
  tally.wrong.add_(numbers_[1].to(at::kLong));
}

bool StepTotals::asked_to_stop() const { return numbers_[2].item<double>() > 0; }

}  // namespace stiefel::train
