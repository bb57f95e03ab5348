#include "optim/euclidean.h"

#include <cmath>

namespace stiefel::detail {

namespace {

/// The direction of SGD, and its buffer brought up to date.
at::Tensor sgd_direction(const at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& buffer,
                         const SgdTerms& terms, double weight_decay) {
  auto direction = gradient;
  if (weight_decay != 0) direction = direction.add(parameter, weight_decay);
  if (terms.momentum == 0) return direction;
  if (!buffer.defined()) {
    buffer = direction.detach().clone();
  } else {
    buffer.mul_(terms.momentum).add_(direction, 1 - terms.dampening);
  }
  return terms.nesterov ? direction.add(buffer, terms.momentum) : buffer;
}

/// The gradient that ADAM sees, and its moments brought up to date.
void adam_moments(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& average,
                  const at::Tensor& squares, const AdamTerms& terms) {
  const bool coupled = terms.weight_decay != 0 && !terms.decoupled;
  const auto slope = coupled ? gradient.add(parameter, terms.weight_decay) : gradient;
  average.mul_(terms.beta1).add_(slope, 1 - terms.beta1);
  squares.mul_(terms.beta2).addcmul_(slope, slope, 1 - terms.beta2);
}

}  // namespace

void euclidean_sgd_(const at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& buffer,
                    const SgdTerms& terms, double weight_decay, double rate) {
  parameter.add_(sgd_direction(parameter, gradient, buffer, terms, weight_decay), -rate);
}

void euclidean_sgd_(const at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& buffer,
                    const SgdTerms& terms, double weight_decay, const at::Tensor& rate) {
  parameter.sub_(sgd_direction(parameter, gradient, buffer, terms, weight_decay).mul(rate));
}

void euclidean_adam_(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& average,
                     const at::Tensor& squares, const at::Tensor& steps, const AdamTerms& terms,
                     double rate) {
  const double k = steps.add_(1).item<double>();
  if (terms.decoupled && terms.weight_decay != 0) parameter.mul_(1 - rate * terms.weight_decay);
  adam_moments(parameter, gradient, average, squares, terms);
  const double bias1 = 1 - std::pow(terms.beta1, k);
  const double bias2 = 1 - std::pow(terms.beta2, k);
  const auto denominator = (squares.sqrt() / std::sqrt(bias2)).add_(terms.eps);
  parameter.addcdiv_(average, denominator, -rate / bias1);
}

void euclidean_adam_(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& average,
                     const at::Tensor& squares, const at::Tensor& steps, const AdamTerms& terms,
                     const at::Tensor& rate) {
  steps.add_(1);
  if (terms.decoupled && terms.weight_decay != 0) parameter.mul_(1 - rate * terms.weight_decay);
  adam_moments(parameter, gradient, average, squares, terms);
  const auto bias1 = 1 - at::pow(terms.beta1, steps);
  const auto bias2 = 1 - at::pow(terms.beta2, steps);
  const auto denominator = squares.sqrt().div_(bias2.sqrt()).add_(terms.eps);
  parameter.sub_(average.div(denominator).mul_(rate / bias1));
}

}  // namespace stiefel::detail
