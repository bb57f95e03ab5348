#include "attack.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <limits>

namespace stiefel::train {

namespace {

at::Tensor lengths(const at::Tensor& x) { return x.flatten(1).norm(2, 1).view({-1, 1, 1, 1}); }

/// How far the score of a class is above the best of the others.
at::Tensor margins(const at::Tensor& scores, const at::Tensor& classes) {
  const auto column = classes.unsqueeze(1);
  const auto others = scores.scatter(1, column, -std::numeric_limits<double>::infinity());
  return scores.gather(1, column).squeeze(1) - std::get<0>(others.max(1));
}

/// The nearest perturbation in the ball, then with pixels from 0 to 1, which brings it nearer still. A length
/// that rounding leaves above the radius is taken back by a few units.
at::Tensor allowed(const at::Tensor& pixels, const at::Tensor& perturbation, double radius) {
  const double below = radius * (1 - 8 * (pixels.scalar_type() == at::kDouble ? 1e-15 : 1e-6));
  const auto in_ball = perturbation * (below / lengths(perturbation).clamp_min(1e-30)).clamp_max(1);
  return (pixels + in_ball).clamp(0, 1) - pixels;
}

/// Uniform in direction, and in the ball's volume as to length.
at::Tensor random_perturbation(const at::Tensor& pixels, double radius, at::Generator generator) {
  const auto cpu = at::TensorOptions(at::kDouble);
  const auto direction = at::randn(pixels.sizes(), generator, cpu);
  const auto share =
      at::rand({pixels.size(0), 1, 1, 1}, generator, cpu).pow(1 / static_cast<double>(pixels[0].numel()));
  return (direction * (radius * share / lengths(direction))).to(pixels.device(), pixels.scalar_type());
}

}  // namespace

Attacked attack(const PixelNetwork& network, const at::Tensor& pixels, const at::Tensor& labels,
                const AttackOptions& options) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(options.seed);
  const auto clean = [&] {
    const at::NoGradGuard no_grad;
    return network(pixels).argmax(1);
  }();
  Attacked found{clean.ne(labels), at::zeros_like(labels, at::kBool),
                 at::zeros(labels.sizes(), pixels.options().dtype(at::kDouble))};
  // Against the image's own class: where that is the label, a changed prediction is a broken one.
  const double step = 2.5 * options.radius / static_cast<double>(options.steps);
  for (int64_t restart = 0; restart < options.restarts; ++restart) {
    auto perturbation = restart == 0 ? at::zeros_like(pixels)
                                     : allowed(pixels, random_perturbation(pixels, options.radius, generator),
                                               options.radius);
    for (int64_t i = 0; i <= options.steps; ++i) {
      perturbation.requires_grad_(true);
      const auto scores = network(pixels + perturbation);
      const auto gradient = torch::autograd::grad({margins(scores, clean).sum()}, {perturbation})[0];
      const at::NoGradGuard no_grad;
      perturbation = perturbation.detach();
      const auto seen = scores.argmax(1);
      found.broken.logical_or_(seen.ne(labels));
      found.changed.logical_or_(seen.ne(clean));
      const auto length = lengths(perturbation.to(at::kDouble)).view(-1);
      found.longest = at::maximum(found.longest, length);
      perturbation = allowed(pixels, perturbation - gradient * (step / lengths(gradient).clamp_min(1e-30)),
                             options.radius);
    }
  }
  return found;
}

}  // namespace stiefel::train
