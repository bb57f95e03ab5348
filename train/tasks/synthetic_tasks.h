#pragma once

#include "task.h"

namespace stiefel::train {

/// A task whose sequences are generated as they are needed: an epoch is kStepsPerEpoch batches, never the
/// same twice, and the test set is kTestItems of them.
class SyntheticTask : public Task {
 public:
  static constexpr int64_t kStepsPerEpoch = 100;
  static constexpr int64_t kTestItems = 1000;

  SyntheticTask(const Config& config, const at::Device& device, const BatchShare& share = {})
      : config_(config), device_(device), share_(share) {}

  int64_t steps_per_epoch() const override { return kStepsPerEpoch; }
  void seek(int64_t epoch, int64_t step) override;
  /// On a GPU all batches have the same address: the next seek overwrites this one.
  TaskBatch next() override { return sought_; }
  int64_t size(Part part) const override { return part == Part::kTest ? kTestItems : 0; }
  bool counts_classes() const override { return false; }
  TaskBatch items(Part part, int64_t from, int64_t to) const override;

 protected:
  /// `count` items drawn from a seed, on the CPU.
  virtual TaskBatch draw(int64_t count, uint64_t seed) const = 0;

  Config config_;
  at::Device device_;
  BatchShare share_;

 private:
  TaskBatch sought_;
};

/// The copying problem: ten symbols out of eight, `length` − 1 blanks, a mark, ten blanks; to be answered
/// with blanks until the mark and then with the ten symbols. Without memory the loss is 10 ln 8/(length +
/// 20).
class CopyingTask : public SyntheticTask {
 public:
  static constexpr int64_t kSymbols = 8;
  static constexpr int64_t kCopied = 10;
  static constexpr int64_t kInputs = kSymbols + 2;   ///< one-hot: blank, the symbols, the mark
  static constexpr int64_t kOutputs = kSymbols + 1;  ///< blank and the symbols

  using SyntheticTask::SyntheticTask;

  /// The loss of the best answer that remembers nothing.
  static double memoryless_loss(int64_t length);

  at::Tensor loss(const at::Tensor& scores, const at::Tensor& targets) const override;
  /// Counts the symbols that were not recalled.
  at::Tensor wrong(const at::Tensor& scores, const at::Tensor& targets) const override;
  int64_t answers_per_item() const override { return kCopied; }

 protected:
  TaskBatch draw(int64_t count, uint64_t seed) const override;
};

/// The adding problem: `length` numbers from 0 to 1, two of them marked, one in each half; the answer is
/// their sum. The loss is the mean square; always answering 1 gives 1/6. Wrong is what is off by more than
/// 0.1.
class AddingTask : public SyntheticTask {
 public:
  using SyntheticTask::SyntheticTask;

  at::Tensor loss(const at::Tensor& scores, const at::Tensor& targets) const override;
  at::Tensor wrong(const at::Tensor& scores, const at::Tensor& targets) const override;

 protected:
  TaskBatch draw(int64_t count, uint64_t seed) const override;
};

}  // namespace stiefel::train
