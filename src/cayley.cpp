#include <ATen/core/grad_mode.h>
#include <stiefel/cayley.h>
#include <stiefel/manifold.h>

#include <cmath>
#include <limits>

#include "algebra.h"
#include "generator_norm.h"
#include "names.h"
#include "step.h"

namespace stiefel {

namespace {

constexpr detail::Names<Norm, 3> kNorms{{
    {Norm::kFrobenius, "frobenius"},
    {Norm::kOne, "one"},
    {Norm::kSpectral, "spectral"},
}};

constexpr detail::Names<Precision, 2> kPrecisions{{
    {Precision::kFull, "full"},
    {Precision::kMixed, "mixed"},
}};

void check_direction(const at::Tensor& point, const at::Tensor& direction) {
  TORCH_CHECK(point.sizes() == direction.sizes(), "stiefel: the direction's shape ", direction.sizes(),
              " differs from the point's ", point.sizes());
}

}  // namespace

std::string to_string(Norm norm) { return detail::name_of(kNorms, norm, "norm"); }
Norm norm_from_string(const std::string& name) { return detail::value_of(kNorms, name, "norm"); }

std::string to_string(Precision precision) { return detail::name_of(kPrecisions, precision, "precision"); }
Precision precision_from_string(const std::string& name) {
  return detail::value_of(kPrecisions, name, "precision");
}

double CayleyOptions::farthest_start() const {
  return polish ? kFarthestStart : std::numeric_limits<double>::infinity();
}

void CayleyOptions::validate() const {
  TORCH_CHECK(q > 0 && q < 1, "stiefel: q must lie in (0, 1), where the iteration contracts; got ", q);
  TORCH_CHECK(eps >= 0 && std::isfinite(eps), "stiefel: eps must be finite and not negative; got ", eps);
  TORCH_CHECK(iterations >= 0 && iterations <= 1000, "stiefel: iterations must lie in [0, 1000]; got ",
              iterations);
}

at::Tensor cayley_retraction(const at::Tensor& point, const at::Tensor& direction,
                             const CayleyOptions& options, bool batched) {
  options.validate();
  check_direction(point, direction);
  const at::NoGradGuard no_grad;
  const MatrixView view(point, batched);
  // The step moves along −M, at the rate 1.
  detail::StepBatch batch{view(point).clone(), view(direction).neg(), {}, {}};
  const detail::StepSize step_size{at::ones({}, point.options().dtype(at::kDouble)), {}};
  detail::step_(batch, step_size, options);
  auto moved = at::empty_like(point);
  view.write(batch.x, moved);
  return moved;
}

at::Tensor generator(const at::Tensor& point, const at::Tensor& direction, bool batched) {
  check_direction(point, direction);
  const at::NoGradGuard no_grad;
  const MatrixView view(point, batched);
  const auto x = view(point.detach());
  const auto m = view(direction.detach());
  auto shape = view.batch_shape();
  shape.insert(shape.end(), {view.n(), view.n()});
  return detail::dense_generator(x, m, detail::overlap(x, m)).reshape(shape);
}

at::Tensor generator_norm(const at::Tensor& point, const at::Tensor& direction, Norm norm, bool batched) {
  check_direction(point, direction);
  const at::NoGradGuard no_grad;
  const MatrixView view(point, batched);
  const auto x = view(point);
  const auto m = view(direction);
  return detail::literal_norm(x, m, detail::drift(x), detail::overlap(x, m), detail::gram(m), norm)
      .view(view.batch_shape());
}

}  // namespace stiefel
