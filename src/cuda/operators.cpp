#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/library.h>
#include <ATen/cuda/CUDAGraphsUtils.cuh>

#include <limits>
#include <list>
#include <memory>
#include <mutex>

#include "mixed_step.h"
#include "operators.h"
#include "rows.h"

// The steps on a CUDA device: our kernels for mixed precision, ATen's operators for everything else.

namespace stiefel {

namespace {

using cuda::Matrix;
using cuda::MixedPlan;
using cuda::Recipe;
using cuda::Shape;

/// Whether the kernels know this form of the step and this processor.
bool is_ours(at::TensorList points, const CayleyOptions& options) {
  if (options.precision != Precision::kMixed || options.exact || !options.polish || options.iterations != 2 ||
      options.norm != Norm::kFrobenius || points.empty()) {
    return false;
  }
  const auto device = points[0].device();
  for (const auto& point : points) {
    if (point.scalar_type() != at::kFloat || point.device() != device || point.dim() < 2 ||
        point.numel() == 0)
      return false;
  }
  return at::cuda::getDeviceProperties(device.index())->major == 9;
}

/// A plan and its table on a device.
struct Held {
  c10::Device device;
  std::vector<int> key;
  MixedPlan plan;
  at::Tensor table;
};

/// The plan of a list of shapes: made at its first step and kept, since a training repeats the same ones.
std::shared_ptr<const Held> plan_of(const std::vector<Shape>& shapes, const c10::Device& device) {
  constexpr size_t kMost = 64;
  static std::mutex alone;
  static std::list<std::shared_ptr<const Held>> plans;  // the latest first
  std::vector<int> key;
  for (const auto& shape : shapes) key.insert(key.end(), {shape.p, shape.n});
  const std::lock_guard<std::mutex> lock(alone);
  for (auto it = plans.begin(); it != plans.end(); ++it) {
    if ((*it)->device == device && (*it)->key == key) {
      plans.splice(plans.begin(), plans, it);
      return plans.front();
    }
  }
  TORCH_CHECK(
      at::cuda::currentStreamCaptureStatus() == at::cuda::CaptureStatus::None,
      "stiefel: a step on these shapes is captured into a CUDA graph before it was ever taken; take one step "
      "before the capture");
  MixedPlan plan(shapes);
  auto bytes = at::empty({static_cast<int64_t>(plan.table().size())}, at::kByte);
  std::copy(plan.table().begin(), plan.table().end(), static_cast<char*>(bytes.data_ptr()));
  plans.push_front(
      std::make_shared<const Held>(Held{device, std::move(key), std::move(plan), bytes.to(device)}));
  if (plans.size() > kMost) plans.pop_back();
  return plans.front();
}

int narrow(int64_t value) {
  TORCH_CHECK(value <= std::numeric_limits<int>::max(), "stiefel: a matrix of ", value,
              " entries across is too large for a step in mixed precision");
  return static_cast<int>(value);
}

/// The matrices of a list as the kernels take them. Entries whose layout cannot be read in place are copied,
/// and copied back by `write_back`.
class Gathered {
 public:
  Gathered(at::TensorList points, at::TensorList momenta, at::TensorList gradients)
      : points_(points), momenta_(momenta) {
    for (size_t i = 0; i < points.size(); ++i) {
      TORCH_CHECK(
          momenta[i].sizes() == points[i].sizes() && gradients[i].sizes() == points[i].sizes() &&
              momenta[i].scalar_type() == at::kFloat && gradients[i].scalar_type() == at::kFloat &&
              momenta[i].device() == points[i].device() && gradients[i].device() == points[i].device(),
          "stiefel: a point ", points[i].sizes(), " came with a momentum ", momenta[i].scalar_type(), " ",
          momenta[i].sizes(), " and a gradient ", gradients[i].scalar_type(), " ", gradients[i].sizes());
      x_.push_back(detail::rows(points[i]));
      m_.push_back(detail::rows(momenta[i]));
      g_.push_back(detail::rows(gradients[i]));
      const auto &x = x_.back(), &m = m_.back(), &g = g_.back();
      for (int64_t b = 0; b < x.size(0); ++b) {
        shapes.push_back({narrow(x.size(1)), narrow(x.size(2))});
        matrices.push_back({x.data_ptr<float>() + b * x.stride(0), m.data_ptr<float>() + b * m.stride(0),
                            g.data_ptr<float>() + b * g.stride(0), nullptr, nullptr, narrow(x.stride(1)),
                            narrow(x.stride(2)), narrow(m.stride(1)), narrow(m.stride(2)),
                            narrow(g.stride(1)), narrow(g.stride(2))});
      }
    }
  }

  /// Gives every matrix its number of two lists of doubles.
  void add_numbers(at::TensorList second_moments, at::TensorList steps) {
    size_t at = 0;
    for (size_t i = 0; i < points_.size(); ++i) {
      const auto &v = second_moments[i], &k = steps[i];
      const int64_t count = x_[i].size(0);
      TORCH_CHECK(v.numel() == count && k.numel() == count && v.scalar_type() == at::kDouble &&
                      k.scalar_type() == at::kDouble && v.is_contiguous() && k.is_contiguous(),
                  "stiefel: second moments and steps must be one double a matrix");
      for (int64_t b = 0; b < count; ++b, ++at) {
        matrices[at].v = v.data_ptr<double>() + b;
        matrices[at].k = k.data_ptr<double>() + b;
      }
    }
  }

  void write_back() const {
    for (size_t i = 0; i < points_.size(); ++i) {
      if (!x_[i].is_alias_of(points_[i])) points_[i].copy_(detail::unrows(x_[i], points_[i]));
      if (!m_[i].is_alias_of(momenta_[i])) momenta_[i].copy_(detail::unrows(m_[i], momenta_[i]));
    }
  }

  std::vector<Matrix> matrices;
  std::vector<Shape> shapes;

 private:
  at::TensorList points_, momenta_;
  std::vector<at::Tensor> x_, m_, g_;
};

void run(const Gathered& gathered, const Recipe& recipe, const c10::Device& device) {
  const auto held = plan_of(gathered.shapes, device);
  const auto workspace = at::empty({static_cast<int64_t>(held->plan.workspace_bytes())},
                                   at::TensorOptions(at::kByte).device(device));
  const auto error = held->plan.step(gathered.matrices.data(), recipe, held->table.data_ptr(),
                                     workspace.data_ptr(), at::cuda::getCurrentCUDAStream(device.index()));
  TORCH_CHECK(error == cudaSuccess,
              "stiefel: a CUDA kernel could not be started: ", cudaGetErrorString(error));
  gathered.write_back();
}

void check_scalars(const at::Tensor& skipped, const at::Tensor& rate, const c10::Device& device) {
  TORCH_CHECK(rate.device() == device && rate.scalar_type() == at::kDouble && rate.numel() == 1,
              "stiefel: the rate must be one double on ", device, "; got ", rate.scalar_type(), " on ",
              rate.device());
  TORCH_CHECK(skipped.device() == device && skipped.scalar_type() == at::kLong && skipped.numel() == 1,
              "stiefel: the count of skipped steps must be one int64 on ", device, "; got ",
              skipped.scalar_type(), " on ", skipped.device());
}

void sgd_kernel(at::TensorList points, at::TensorList momenta, at::TensorList gradients, at::Tensor skipped,
                const at::Tensor& rate, double momentum, double q, double eps, int64_t iterations, bool exact,
                c10::string_view norm, bool polish, c10::string_view precision) {
  const at::NoGradGuard no_grad;
  const auto options = detail::pack(q, eps, iterations, exact, norm, polish, precision);
  if (!is_ours(points, options)) {
    return detail::cayley_sgd_any_(points, momenta, gradients, skipped, rate, momentum, options);
  }
  const auto device = points[0].device();
  const c10::cuda::CUDAGuard guard(device);
  detail::check_lists(points, {{"momenta", momenta}, {"gradients", gradients}});
  check_scalars(skipped, rate, device);
  const Gathered gathered(points, momenta, gradients);
  run(gathered, {momentum, 1, 0, 0, q, eps, false, rate.data_ptr<double>(), skipped.data_ptr<int64_t>()},
      device);
}

void adam_kernel(at::TensorList points, at::TensorList momenta, at::TensorList second_moments,
                 at::TensorList steps, at::TensorList gradients, at::Tensor skipped, const at::Tensor& rate,
                 double beta1, double beta2, double q, double eps, int64_t iterations, bool exact,
                 c10::string_view norm, bool polish, c10::string_view precision) {
  const at::NoGradGuard no_grad;
  const auto options = detail::pack(q, eps, iterations, exact, norm, polish, precision);
  if (!is_ours(points, options)) {
    return detail::cayley_adam_any_(points, momenta, second_moments, steps, gradients, skipped, rate, beta1,
                                    beta2, options);
  }
  const auto device = points[0].device();
  const c10::cuda::CUDAGuard guard(device);
  detail::check_lists(points, {{"momenta", momenta},
                               {"gradients", gradients},
                               {"second moments", second_moments},
                               {"step counts", steps}});
  check_scalars(skipped, rate, device);
  Gathered gathered(points, momenta, gradients);
  gathered.add_numbers(second_moments, steps);
  run(gathered,
      {beta1, 1 - beta1, beta1, beta2, q, eps, true, rate.data_ptr<double>(), skipped.data_ptr<int64_t>()},
      device);
}

}  // namespace

TORCH_LIBRARY_IMPL(stiefel, CUDA, library) {
  library.impl("cayley_sgd_", sgd_kernel);
  library.impl("cayley_adam_", adam_kernel);
}

}  // namespace stiefel
