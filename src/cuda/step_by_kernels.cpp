#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "device.h"
#include "minimax_quintics.h"
#include "mixed_step.h"
#include "part_of_step.h"
#include "plan_cache.h"

// The steps that our kernels take on a CUDA device: those in mixed precision.

namespace stiefel {

namespace {

using cuda::Matrix;
using cuda::MixedPlan;
using cuda::Recipe;
using cuda::Shape;
using detail::StepMatrices;

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

int narrow(int64_t value) {
  TORCH_CHECK(value <= std::numeric_limits<int>::max(), "stiefel: a matrix of ", value,
              " entries across is too large for a step in mixed precision");
  return static_cast<int>(value);
}

/// The shapes of the step that the current one is a part of; empty where it is none.
std::vector<Shape> shapes_of_whole() {
  std::vector<Shape> shapes;
  for (const auto& [p, n] : detail::PartOfStep::whole()) shapes.push_back({narrow(p), narrow(n)});
  return shapes;
}

/// The plan of a list of shapes: made at its first step and cached, since a training run repeats the same
/// ones.
std::shared_ptr<const DevicePlan> plan_of(const std::vector<Shape>& shapes, const c10::Device& device,
                                          bool captured) {
  static cuda::PlanCache<PlanKey, DevicePlan> plans;
  const auto whole = shapes_of_whole();
  PlanKey key{device, {}};
  for (const auto& shape : shapes) key.sizes.insert(key.sizes.end(), {shape.p, shape.n});
  if (!whole.empty()) key.sizes.push_back(0);  // no shape begins with it
  for (const auto& shape : whole) key.sizes.insert(key.sizes.end(), {shape.p, shape.n});
  return plans.find(key, captured, [&] {
    TORCH_CHECK(
        !captured,
        "stiefel: a step on these shapes is captured into a CUDA graph before it was ever taken; take one "
        "step before the capture");
    // LibTorch keeps a device's properties, and no plan is made during a capture: nothing here disturbs one.
    MixedPlan plan(shapes, at::cuda::getDeviceProperties(device.index())->multiProcessorCount, whole);
    auto bytes = at::empty({static_cast<int64_t>(plan.table().size())}, at::kByte);
    std::copy(plan.table().begin(), plan.table().end(), static_cast<char*>(bytes.data_ptr()));
    return DevicePlan{std::move(plan), bytes.to(device)};
  });
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

/// The terms of Cayley Muon as the kernels take them.
cuda::PolarRecipe polar_recipe(const MuonTerms& terms) {
  // Up to a quarter of a radian the exit correction of the kernels, P = −½V, leaves 1e-6 per direction.
  constexpr double kMostTurn = 0.25;
  // M₁ and the projection's product are in halves: what they leave of the normal part is up to 2⁻¹¹ of it.
  constexpr double kNegligible = 4 * 0x1p-11;
  // The quintics are steep beyond the largest singular value that they are made for, and halves are rounded:
  // all but the last take singular values a hundredth smaller (as in "The Polar Express", arXiv 2505.16932).
  constexpr double kMargin = 1.01;
  const auto& all = detail::minimax_quintics(terms.polar.rounds);
  cuda::PolarRecipe recipe{};
  recipe.most_turn = kMostTurn;
  recipe.gain = all.gain;
  recipe.negligible = kNegligible;
  recipe.rounds = static_cast<int>(all.rounds.size());
  for (size_t i = 0; i < all.rounds.size(); ++i) {
    const auto& [a, b, c] = all.rounds[i];
    const double by = i + 1 < all.rounds.size() ? 1 / kMargin : 1;
    recipe.quintics[i] = {static_cast<float>(a * by), static_cast<float>(b * std::pow(by, 3)),
                          static_cast<float>(c * std::pow(by, 5))};
  }
  recipe.rms_scale = terms.scale == MuonScale::kRms;
  return recipe;
}

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

bool has_kernels_for(const at::Tensor& point, const CayleyOptions& options, const MuonTerms* muon) {
  if (muon != nullptr &&
      (muon->nesterov || muon->polar.exact_root || muon->polar.rounds > cuda::kMostRounds)) {
    return false;
  }
  if (options.precision != Precision::kMixed || options.exact || !options.polish || options.iterations != 2 ||
      options.norm != Norm::kFrobenius) {
    return false;
  }
  const auto device = point.device();
  return device.is_cuda() && point.scalar_type() == at::kFloat &&
         at::cuda::getDeviceProperties(device.index())->major == 9;
}

bool step_by_kernels(const StepMatrices& matrices, const StepCounters& counters, const at::Tensor& rate,
                     const UpdateRule& rule, const CayleyOptions& options) {
  if (matrices.points.empty() || !has_kernels_for(matrices.points[0], options, rule.muon)) return false;
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
  if (rule.muon) recipe.polar = polar_recipe(*rule.muon);
  run(all, recipe, matrices.points[0].device());
  return true;
}

}  // namespace detail

}  // namespace stiefel
