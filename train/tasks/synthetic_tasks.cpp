#include "synthetic_tasks.h"

#include <algorithm>
#include <cmath>

#include "data/seeds.h"

namespace stiefel::train {

void SyntheticTask::seek(int64_t epoch, int64_t step) {
  const auto whole = draw(
      config_.batch, data::mix(static_cast<uint64_t>(config_.seed), epoch, step, data::Purpose::kSequences));
  const TaskBatch made{share_.of(whole.inputs, 0), share_.of(whole.targets, 0)};
  if (!device_.is_cuda()) {
    sought_ = made;
    return;
  }
  if (!sought_.inputs.defined()) sought_ = {made.inputs.to(device_), made.targets.to(device_)};
  sought_.inputs.copy_(made.inputs.pin_memory(), /*non_blocking=*/true);
  sought_.targets.copy_(made.targets.pin_memory(), /*non_blocking=*/true);
}

TaskBatch SyntheticTask::items(Part, int64_t from, int64_t to) const {
  // Whatever the run's seed, all are tested on the same items.
  const auto all = draw(to, data::mix(0, 0, 0, data::Purpose::kTestSequences));
  return {all.inputs.narrow(0, from, to - from).to(device_),
          all.targets.narrow(0, from, to - from).to(device_)};
}

double CopyingTask::memoryless_loss(int64_t length) {
  return static_cast<double>(kCopied) * std::log(static_cast<double>(kSymbols)) /
         static_cast<double>(length + 2 * kCopied);
}

TaskBatch CopyingTask::draw(int64_t count, uint64_t seed) const {
  const int64_t steps = config_.length + 2 * kCopied;
  auto symbols = at::zeros({count, steps}, at::kLong);
  auto targets = at::zeros({count, steps}, at::kLong);
  auto given = symbols.accessor<int64_t, 2>();
  auto wanted = targets.accessor<int64_t, 2>();
  data::Stream stream(seed);
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t j = 0; j < kCopied; ++j) {
      const int64_t symbol = 1 + stream.below(kSymbols);
      given[i][j] = symbol;
      wanted[i][steps - kCopied + j] = symbol;
    }
    given[i][steps - kCopied - 1] = kSymbols + 1;  // the mark
  }
  return {at::one_hot(symbols, kInputs).to(at::kFloat), targets};
}

at::Tensor CopyingTask::loss(const at::Tensor& scores, const at::Tensor& targets) const {
  return Task::loss(scores.reshape({-1, kOutputs}), targets.reshape({-1}));
}

at::Tensor CopyingTask::wrong(const at::Tensor& scores, const at::Tensor& targets) const {
  const int64_t first = targets.size(1) - kCopied;
  return scores.narrow(1, first, kCopied).argmax(-1).ne(targets.narrow(1, first, kCopied)).sum();
}

TaskBatch AddingTask::draw(int64_t count, uint64_t seed) const {
  const int64_t steps = config_.length;
  auto inputs = at::zeros({count, steps, 2});
  auto targets = at::zeros({count, 1});
  auto value = inputs.accessor<float, 3>();
  auto sum = targets.accessor<float, 2>();
  data::Stream stream(seed);
  const auto uniform = [&] {
    return static_cast<float>(stream.below(1 << 24)) / static_cast<float>(1 << 24);
  };
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t t = 0; t < steps; ++t) value[i][t][0] = uniform();
    const int64_t first = stream.below(steps / 2);
    const int64_t second = steps / 2 + stream.below(steps - steps / 2);
    for (const auto t : {first, second}) {
      value[i][t][1] = 1;
      sum[i][0] += value[i][t][0];
    }
  }
  return {inputs, targets};
}

at::Tensor AddingTask::loss(const at::Tensor& scores, const at::Tensor& targets) const {
  return at::mse_loss(scores, targets);
}

at::Tensor AddingTask::wrong(const at::Tensor& scores, const at::Tensor& targets) const {
  return (scores - targets).abs().gt(0.1).sum();
}

}  // namespace stiefel::train
