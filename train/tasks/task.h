#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "data/fingerprint.h"
#include "train/resolve_config.h"

namespace stiefel::train {

/// What a network of a task takes and gives.
struct TaskShape {
  int64_t inputs = 3;       ///< channels of an image, or numbers per step of a sequence
  int64_t outputs = 10;     ///< scores
  bool every_step = false;  ///< whether a sequence is answered at every step
};

/// The shape of a config's task; needs no data.
TaskShape shape_of(const Config& config);

/// Which part of every training batch a process takes: of `ranks` equal ones the one numbered `rank`.
struct BatchShare {
  int64_t rank = 0;
  int64_t ranks = 1;

  /// That part of a tensor whose dimension `dim` counts the batch's items.
  at::Tensor of(const at::Tensor& batch, int64_t dim) const;
};

/// Items of a task and the answers to them.
struct TaskBatch {
  at::Tensor inputs;
  at::Tensor targets;
};

/// What a run learns: where its batches come from and what its answers are worth. Batches are pure functions
/// of the seed, the epoch and the step, and lie on the device that trains. Several processes share each
/// batch: what is random is drawn for all of it, so that together they see what one process would.
class Task {
 public:
  enum class Part { kTest, kValidation };

  virtual ~Task() = default;

  /// Of the data set that it takes its items from; nothing where it makes them.
  virtual std::optional<data::Fingerprint> fingerprint() const { return std::nullopt; }

  virtual int64_t steps_per_epoch() const = 0;

  /// A training batch comes in two halves. First the host's: whatever of it depends on the epoch and the step
  /// is sent to the device, without waiting for it.
  virtual void seek(int64_t epoch, int64_t step) = 0;

  /// Then the device's: the batch that was sought. It needs nothing from the host and moves on by itself, so
  /// it can be part of a captured step; every seek is followed by one next, or by the replay of one.
  virtual TaskBatch next() = 0;

  /// Both at once.
  TaskBatch batch(int64_t epoch, int64_t step) {
    seek(epoch, step);
    return next();
  }

  /// How many items a part has, 0 where there is none, and some of them.
  virtual int64_t size(Part part) const = 0;
  virtual TaskBatch items(Part part, int64_t from, int64_t to) const = 0;

  /// How many items are evaluated at a time.
  virtual int64_t evaluation_batch() const { return 500; }

  /// The mean loss, and the number of wrong answers, both on the device. By default the scores are of classes
  /// and the targets their numbers.
  virtual at::Tensor loss(const at::Tensor& scores, const at::Tensor& targets) const;
  virtual at::Tensor wrong(const at::Tensor& scores, const at::Tensor& targets) const;

  /// Whether an answer is wrong where the largest score is not the target's.
  virtual bool counts_classes() const { return true; }

  /// The answers that an item asks for.
  virtual int64_t answers_per_item() const { return 1; }
};

/// The task of a config: images, pixels one at a time, copying or adding. Throws std::runtime_error where its
/// data is missing, std::invalid_argument where the config does not suit it. Its training batches are this
/// process's share of the config's.
std::unique_ptr<Task> make_task(const Config& config, const at::Device& device, const BatchShare& share = {});

/// The names that `--task` takes.
std::vector<std::string> task_names();

/// Whether a task is about sequences, for recurrent networks.
bool is_sequence_task(const std::string& name);

}  // namespace stiefel::train
