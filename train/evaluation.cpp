#include "evaluation.h"

#include <torch/utils.h>

#include <algorithm>

namespace stiefel::train {

Evaluation evaluate(models::Network& network, const Task& task, Task::Part part, NetworkPrecision precision,
                    bool products) {
  const torch::NoGradGuard no_grad;
  network.eval();
  const int64_t size = task.size(part);
  const int64_t most = task.evaluation_batch();
  double loss = 0;
  int64_t wrong = 0;
  for (int64_t at = 0; at < size; at += most) {
    const int64_t end = std::min(at + most, size);
    const auto items = task.items(part, at, end);
    const TensorCoreScope tensor_cores(precision, products);
    at::Tensor scores;
    {
      const AutocastScope autocast(precision);
      scores = network.forward(items.inputs);
    }
    scores = scores.to(at::kFloat);
    loss += task.loss(scores, items.targets).item<double>() * static_cast<double>(end - at);
    wrong += task.wrong(scores, items.targets).item<int64_t>();
  }
  network.train();
  const auto count = static_cast<double>(size);
  return {loss / count,
          100 * static_cast<double>(wrong) / (count * static_cast<double>(task.answers_per_item()))};
}

}  // namespace stiefel::train
