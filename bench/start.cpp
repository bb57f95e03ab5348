#include "start.h"

#include <stiefel/cayley.h>
#include <stiefel/init.h>
#include <stiefel/manifold.h>
#include <torch/cuda.h>

#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "base/stopwatch.h"
#include "noise.h"

namespace stiefel::bench {

const double kGrowth = 1 / std::sqrt(1 - kMomentum * kMomentum);

double seconds_of(const std::function<void()>& work, const at::Device& device) {
  if (device.is_cuda()) torch::cuda::synchronize();
  const base::Stopwatch watch;
  work();
  if (device.is_cuda()) torch::cuda::synchronize();
  return watch.seconds();
}

const Start& start_of(const Layer& layer, const at::Device& device) {
  static std::map<std::pair<c10::DeviceType, std::vector<int64_t>>, Start> starts;
  auto& start = starts[{device.type(), layer.sizes}];
  if (start.point.defined()) return start;
  auto matrix = at::empty({layer.p(), layer.n()}, device);
  init::haar_(matrix);
  const auto gradient = Noise::shared(device).draw(matrix.sizes());
  start.gradient = gradient.norm().item<double>();
  start.generator =
      generator_norm(matrix, project_tangent(matrix, gradient), Norm::kFrobenius).item<double>();
  start.point = layer.batched ? matrix.expand(layer.sizes).contiguous() : matrix.view(layer.sizes);
  return start;
}

double worst_defect(const at::Tensor& weight, bool batched) {
  return stiefel::defect(weight, batched).max().item<double>();
}

}  // namespace stiefel::bench
