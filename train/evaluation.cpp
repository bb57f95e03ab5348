#include "evaluation.h"

#include <torch/utils.h>

#include <algorithm>

namespace stiefel::train {

Evaluation evaluate(models::Network& network, const Task& task, Task::Part part, NetworkPrecision precision,
                    bool products, distributed::World* world) {
  const torch::NoGradGuard no_grad;
  network.eval();
  const int64_t size = task.size(part);
  const int64_t most = task.evaluation_batch();
  const int64_t batches = (size + most - 1) / most;
  // A row for each batch, the loss and the wrong answers: added in their order, whoever has computed them.
  auto found = at::zeros({batches, 2}, at::kDouble);
  const int64_t first = world ? world->rank() : 0, stride = world ? world->size() : 1;
  for (int64_t i = 0; i < batches; ++i) {
    const int64_t at = i * most, end = std::min(at + most, size);
    if (i % stride != first) continue;
    const auto items = task.items(part, at, end);
    const TensorCoreScope tensor_cores(precision, products);
    at::Tensor scores;
    {
      const AutocastScope autocast(precision);
      scores = network.forward(items.inputs);
    }
    scores = scores.to(at::kFloat);
    found[i][0] = task.loss(scores, items.targets).item<double>() * static_cast<double>(end - at);
    found[i][1] = static_cast<double>(task.wrong(scores, items.targets).item<int64_t>());
  }
  network.train();
  if (world) {
    auto shared = found.to(network.parameters()[0].device());
    world->ranks()->sum_(shared);
    found = shared.to(at::kCPU);
  }
  double loss = 0, wrong = 0;
  for (int64_t i = 0; i < batches; ++i) {
    loss += found[i][0].item<double>();
    wrong += found[i][1].item<double>();
  }
  const auto count = static_cast<double>(size);
  return {loss / count, 100 * wrong / (count * static_cast<double>(task.answers_per_item()))};
}

}  // namespace stiefel::train
