#include "task.h"

#include <algorithm>

#include "data/catalog.h"
#include "image_task.h"
#include "pixel_task.h"
#include "synthetic_tasks.h"

namespace stiefel::train {

at::Tensor BatchShare::of(const at::Tensor& batch, int64_t dim) const {
  if (ranks == 1) return batch;
  const auto items = batch.size(dim) / ranks;
  return batch.narrow(dim, rank * items, items);
}

at::Tensor Task::loss(const at::Tensor& scores, const at::Tensor& targets) const {
  return at::cross_entropy_loss(scores, targets);
}

at::Tensor Task::wrong(const at::Tensor& scores, const at::Tensor& targets) const {
  return scores.argmax(-1).ne(targets).sum();
}

TaskShape shape_of(const Config& config) {
  if (config.task == "copying") return {CopyingTask::kInputs, CopyingTask::kOutputs, true};
  if (config.task == "adding") return {2, 1, false};
  const auto& facts = data::facts_of(config.data);
  return {config.task == "pixel" ? 1 : facts.channels(), facts.classes, false};
}

std::unique_ptr<Task> make_task(const Config& config, const at::Device& device, const BatchShare& share) {
  if (config.task == "pixel") return std::make_unique<PixelTask>(config, device, share);
  if (config.task == "copying") return std::make_unique<CopyingTask>(config, device, share);
  if (config.task == "adding") return std::make_unique<AddingTask>(config, device, share);
  return std::make_unique<ImageTask>(config, device, share);
}

std::vector<std::string> task_names() { return {"image", "pixel", "copying", "adding"}; }

bool is_sequence_task(const std::string& name) { return name != "image"; }

}  // namespace stiefel::train
