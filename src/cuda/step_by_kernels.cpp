#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include <limits>
#include <memory>

#include "device.h"
#include "mixed_step.h"
#include "plan_cache.h"

// The steps that our kernels take on a CUDA device: those in mixed precision.

namespace stiefel {

namespace {

using cuda::Matrix;
using cuda::MixedPlan;
using cuda::Recipe;
using cuda::Shape;
using detail::StepMatrices;

/// Whether there are kernels for this form of the step and this processor.
bool have_kernels_for(at::TensorList points, const CayleyOptions& options) {
  if (options.precision != Precision::kMixed || options.exact || !options.polish || options.iterations != 2 ||
      options.norm != Norm::kFrobenius || points.empty()) {
    return false;
  }
  const auto device = points[0].device();
  return device.is_cuda() && points[0].scalar_type() == at::kFloat &&
         at::cuda::getDeviceProperties(device.index())->major == 9;
}

/// A plan and its table on a device.
struct DevicePlan {
  MixedPlan plan;
  at::Tensor table;
};

struct PlanKey {
  c10::Device device;
  std::vector<int> sizes;

  bool operator==(const PlanKey& other) const { return device == other.device && sizes == other.sizes; }
};

/// The plan of a list of shapes: made at its first step and cached, since a training run repeats the same
/// ones.
std::shared_ptr<const DevicePlan> plan_of(const std::vector<Shape>& shapes, const c10::Device& device,
                                          bool captured) {
  static cuda::PlanCache<PlanKey, DevicePlan> plans;
  PlanKey key{device, {}};
  for (const auto& shape : shapes) key.sizes.insert(key.sizes.end(), {shape.p, shape.n});
  return plans.find(key, captured, [&] {
    TORCH_CHECK(
        !captured,
        "stiefel: a step on these shapes is captured into a CUDA graph before it was ever taken; take one "
        "step before the capture");
    // LibTorch keeps a device's properties, and no plan is made during a capture: nothing here disturbs one.
    MixedPlan plan(shapes, at::cuda::getDeviceProperties(device.index())->multiProcessorCount);
    auto bytes = at::empty({static_cast<int64_t>(plan.table().size())}, at::kByte);
    std::copy(plan.table().begin(), plan.table().end(), static_cast<char*>(bytes.data_ptr()));
    return DevicePlan{std::move(plan), bytes.to(device)};
  });
}

int narrow(int64_t value) {
  TORCH_CHECK(value <= std::numeric_limits<int>::max(), "stiefel: a matrix of ", value,
              " entries across is too large for a step in mixed precision");
  return static_cast<int>(value);
}

/// The matrices of a step as the kernels take them.
struct KernelMatrices {
  std::vector<Matrix> matrices;
  std::vector<Shape> shapes;

  explicit KernelMatrices(const StepMatrices& step) {
    for (size_t i = 0; i < step.points.size(); ++i) {
      const auto &x = step.points[i], &m = step.momenta[i], &g = step.gradients[i];
      for (int64_t b = 0; b < x.size(0); ++b) {
        shapes.push_back({narrow(x.size(1)), narrow(x.size(2))});
        matrices.push_back({x.data_ptr<float>() + b * x.stride(0), m.data_ptr<float>() + b * m.stride(0),
                            g.data_ptr<float>() + b * g.stride(0), nullptr, nullptr, narrow(x.stride(1)),
                            narrow(x.stride(2)), narrow(m.stride(1)), narrow(m.stride(2)),
                            narrow(g.stride(1)), narrow(g.stride(2))});
      }
    }
  }

  /// Gives every matrix its v and k.
  void add_numbers(const detail::AdamNumbers& adam) {
    size_t at = 0;
    for (size_t i = 0; i < adam.steps.size(); ++i) {
      for (int64_t b = 0; b < adam.steps[i].numel(); ++b, ++at) {
        matrices[at].v = adam.second_moments[i].data_ptr<double>() + b;
        matrices[at].k = adam.steps[i].data_ptr<double>() + b;
      }
    }
  }
};

void run(const KernelMatrices& all, const Recipe& recipe, const c10::Device& device) {
  const c10::cuda::CUDAGuard guard(device);
  const auto stream = at::cuda::getCurrentCUDAStream(device.index());
  const bool captured = detail::is_capturing(device);
  const auto planned = plan_of(all.shapes, device, captured);
  // The cache may drop the plan while the kernels below still read its table; it never drops a captured one.
  if (!captured) planned->table.record_stream(stream.unwrap());
  const auto workspace = at::empty({static_cast<int64_t>(planned->plan.workspace_bytes())},
                                   at::TensorOptions(at::kByte).device(device));
  const auto error = cuda::mixed_step(planned->plan, all.matrices.data(), recipe, planned->table.data_ptr(),
                                      workspace.data_ptr(), stream);
  TORCH_CHECK(error == cudaSuccess,
              "stiefel: a CUDA kernel could not be started: ", cudaGetErrorString(error));
}

}  // namespace

namespace detail {

bool step_by_kernels(const StepMatrices& matrices, const StepCounters& counters, const at::Tensor& rate,
                     const UpdateRule& rule, const CayleyOptions& options) {
  if (rule.muon || !have_kernels_for(matrices.points, options)) return false;
  KernelMatrices all(matrices);
  const auto wide_rate = rate.to(at::kDouble);
  Recipe recipe{};
  recipe.decay = rule.decay;
  recipe.gain = rule.gain;
  recipe.q = options.q;
  recipe.eps = options.eps;
  recipe.farthest = kFarthestStart;
  recipe.rate = wide_rate.data_ptr<double>();
  recipe.skipped = counters.skipped.data_ptr<int64_t>();
  recipe.off_manifold = counters.off_manifold.defined() ? counters.off_manifold.data_ptr<int64_t>() : nullptr;
  if (rule.adam) {
    all.add_numbers(*rule.adam);
    recipe.adam = true;
    recipe.beta1 = rule.adam->beta1;
    recipe.beta2 = rule.adam->beta2;
  }
  run(all, recipe, matrices.points[0].device());
  return true;
}

}  // namespace detail

}  // namespace stiefel
