#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <stiefel/device_kernels.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>

#include "device.h"
#include "kernel_choice.h"
#include "minimax_quintics.h"
#include "mixed_step.h"
#include "part_of_step.h"
#include "plan_cache.h"
#include "small_step.h"

// The steps that our kernels take on a CUDA device: those in mixed precision. Small matrices have kernels of
// their own (small_step.h), the others share a plan (mixed_plan.h).

namespace stiefel {

namespace {

using cuda::Matrix;
using cuda::MixedPlan;
using cuda::Recipe;
using cuda::Shape;
using cuda::SmallCard;
using cuda::SmallStack;
using detail::StepMatrices;

cuda::MixedKernels kernels_on_card(const c10::Device& device) {
  const auto* card = at::cuda::getDeviceProperties(device.index());
  return cuda::choose_kernels(card->major, card->minor, cuda::wanted_kernels()).kernels;
}

/// The kernels that share a plan.
cuda::MixedStep& planned_step(cuda::MixedKernels kernels) {
  return kernels == cuda::MixedKernels::kHopper ? cuda::hopper::mixed_step : cuda::ampere::mixed_step;
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

int narrow(int64_t value) {
  TORCH_CHECK(value <= std::numeric_limits<int>::max(), "stiefel: a matrix of ", value,
              " entries across is too large for a step in mixed precision");
  return static_cast<int>(value);
}

/// The plan of a list of shapes: made at its first step and cached, since a training run repeats the same
/// ones. `whole`: of the step that this one is a part of; empty where it is none.
std::shared_ptr<const DevicePlan> plan_of(const std::vector<Shape>& shapes, const std::vector<Shape>& whole,
                                          const c10::Device& device, bool captured) {
  static cuda::PlanCache<PlanKey, DevicePlan> plans;
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

SmallCard card_of(const c10::Device& device) {
  const auto* properties = at::cuda::getDeviceProperties(device.index());
  return {10 * properties->major + properties->minor, static_cast<int>(properties->sharedMemPerBlockOptin)};
}

/// Which weights of a step, by index, the small kernels take, and which the plan's do; and the shapes of the
/// plan of the step that this one is a part of, none where it is the whole step.
struct Split {
  std::vector<size_t> small, planned;
  std::vector<Shape> whole_plan;
};

bool has_small_kernel(int64_t p, int64_t n, const SmallCard& card) {
  constexpr int64_t kMostSide = 1 << 10;  // far above what has a kernel
  return n <= kMostSide && cuda::has_small_kernel({static_cast<int>(p), static_cast<int>(n)}, card);
}

/// A weight's matrices, where they have a small kernel: its offsets are ints.
bool is_small(const StepMatrices& step, size_t i, const SmallCard& card) {
  const auto& x = step.points[i];
  const int64_t p = x.size(1), n = x.size(2);
  if (!has_small_kernel(p, n, card)) return false;
  const auto fits = [&](const at::Tensor& t) {
    return p * t.stride(1) + n * t.stride(2) <= std::numeric_limits<int>::max();
  };
  return fits(x) && fits(step.momenta[i]) && fits(step.gradients[i]);
}

Split split(const StepMatrices& step, const c10::Device& device, cuda::MixedKernels kernels, bool polar) {
  // Beside larger ones, fewer than these stay in the plan: there a small matrix costs 0.6 to 0.8 µs, and the
  // launch of the small kernels 13 to 37 µs (an H200). Where all are small, the plan has no launches.
  constexpr int64_t kFewest = 64;
  const bool take_small = kernels != cuda::MixedKernels::kNone && !polar;
  const SmallCard card = card_of(device);
  const auto& whole = detail::PartOfStep::whole();
  Split result;
  int64_t matrices = 0;  // that have small kernels, in the whole step
  bool all_small = true;
  for (size_t i = 0; i < step.points.size(); ++i) {
    const bool small = take_small && is_small(step, i, card);
    (small ? result.small : result.planned).push_back(i);
    if (whole.empty()) {
      all_small = all_small && small;
      if (small) matrices += step.count(i);
    }
  }
  for (const auto& [p, n] : whole) {
    const bool small = take_small && has_small_kernel(p, n, card);
    all_small = all_small && small;
    if (small) ++matrices;
  }
  const bool enough = all_small || matrices >= kFewest;
  if (!enough) {
    result.small.clear();
    result.planned.resize(step.points.size());
    std::iota(result.planned.begin(), result.planned.end(), size_t{0});
  }
  for (const auto& [p, n] : whole) {
    if (!enough || !has_small_kernel(p, n, card)) result.whole_plan.push_back({narrow(p), narrow(n)});
  }
  return result;
}

/// The matrices of a step's weights as the small kernels take them.
std::vector<SmallStack> small_stacks(const StepMatrices& step, const std::vector<size_t>& weights,
                                     const detail::AdamNumbers* adam) {
  std::vector<SmallStack> stacks;
  for (const size_t i : weights) {
    const auto &x = step.points[i], &m = step.momenta[i], &g = step.gradients[i];
    stacks.push_back({x.data_ptr<float>(), m.data_ptr<float>(), g.data_ptr<float>(),
                      adam ? adam->second_moments[i].data_ptr<double>() : nullptr,
                      adam ? adam->steps[i].data_ptr<double>() : nullptr, x.stride(0), m.stride(0),
                      g.stride(0), narrow(x.stride(1)), narrow(x.stride(2)), narrow(m.stride(1)),
                      narrow(m.stride(2)), narrow(g.stride(1)), narrow(g.stride(2)), narrow(x.size(1)),
                      narrow(x.size(2)), narrow(x.size(0)), 0});
  }
  return stacks;
}

/// The matrices of a step's weights as the plan's kernels take them.
struct KernelMatrices {
  std::vector<Matrix> matrices;
  std::vector<Shape> shapes;

  KernelMatrices(const StepMatrices& step, const std::vector<size_t>& weights) {
    for (const size_t i : weights) {
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
  void add_numbers(const detail::AdamNumbers& adam, const std::vector<size_t>& weights) {
    size_t at = 0;
    for (const size_t i : weights) {
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

void check_started(cudaError_t error) {
  TORCH_CHECK(error == cudaSuccess,
              "stiefel: a CUDA kernel could not be started: ", cudaGetErrorString(error));
}

void run_small(std::vector<SmallStack> stacks, const Recipe& recipe, const c10::Device& device) {
  const c10::cuda::CUDAGuard guard(device);
  const auto stream = at::cuda::getCurrentCUDAStream(device.index());
  const int count = narrow(static_cast<int64_t>(stacks.size()));
  const auto memory = at::empty({static_cast<int64_t>(cuda::small_step_bytes(count))},
                                at::TensorOptions(at::kByte).device(device));
  check_started(cuda::small_step(stacks.data(), count, recipe, card_of(device), memory.data_ptr(), stream));
}

void run(cuda::MixedStep& mixed_step, const KernelMatrices& all, const std::vector<Shape>& whole,
         const Recipe& recipe, const c10::Device& device) {
  const c10::cuda::CUDAGuard guard(device);
  const auto stream = at::cuda::getCurrentCUDAStream(device.index());
  const bool captured = detail::is_capturing(device);
  const auto planned = plan_of(all.shapes, whole, device, captured);
  // The cache may drop the plan while the kernels below still read its table; it never drops a captured one.
  if (!captured) planned->table.record_stream(stream.unwrap());
  const auto workspace = at::empty({static_cast<int64_t>(planned->plan.workspace_bytes())},
                                   at::TensorOptions(at::kByte).device(device));
  check_started(mixed_step(planned->plan, all.matrices.data(), recipe, planned->table.data_ptr(),
                           workspace.data_ptr(), stream));
}

}  // namespace

DeviceKernels kernels_on(const c10::Device& device) {
  if (!device.is_cuda()) return {"none", "LibTorch's operators: the kernels are for GPUs"};
  if (c10::cuda::device_count() == 0) return {"none", "LibTorch's operators: there is no GPU"};
  const auto index = device.has_index() ? device.index() : c10::cuda::current_device();
  const auto* card = at::cuda::getDeviceProperties(index);
  const auto choice = cuda::choose_kernels(card->major, card->minor, cuda::wanted_kernels());
  const auto* name = choice.kernels == cuda::MixedKernels::kHopper   ? "hopper"
                     : choice.kernels == cuda::MixedKernels::kAmpere ? "ampere"
                                                                     : "none";
  return {name, choice.reason, card->major, card->minor};
}

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
         kernels_on_card(device) != cuda::MixedKernels::kNone;
}

bool step_by_kernels(const StepMatrices& matrices, const StepCounters& counters, const at::Tensor& rate,
                     const UpdateRule& rule, const CayleyOptions& options) {
  if (matrices.points.empty() || !has_kernels_for(matrices.points[0], options, rule.muon)) return false;
  const auto device = matrices.points[0].device();
  const auto kernels = kernels_on_card(device);
  const Split weights = split(matrices, device, kernels, rule.muon != nullptr);
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
    recipe.adam = true;
    recipe.beta1 = rule.adam->beta1;
    recipe.beta2 = rule.adam->beta2;
  }
  if (rule.muon) recipe.polar = polar_recipe(*rule.muon);
  if (!weights.small.empty()) {
    run_small(small_stacks(matrices, weights.small, rule.adam), recipe, device);
  }
  if (!weights.planned.empty()) {
    KernelMatrices all(matrices, weights.planned);
    if (rule.adam) all.add_numbers(*rule.adam, weights.planned);
    run(planned_step(kernels), all, weights.whole_plan, recipe, device);
  }
  return true;
}

}  // namespace detail

}  // namespace stiefel
