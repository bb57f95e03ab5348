#include "optim/euclidean_steps.h"

#include <cmath>
#include <utility>

#include "batches.h"
#include "compat.h"

namespace stiefel::detail {

namespace {

bool fused_kernels_take(const at::Tensor& parameter) {
  return kHasFusedSteps && parameter.is_cuda() && parameter.scalar_type() == at::kFloat &&
         parameter.is_non_overlapping_and_dense();
}

/// Calls `together` with the entries that the fused kernels step at once, device by device, and `alone` with
/// each of the others.
template <class Together, class Alone>
void for_each_parameter(const std::vector<at::Tensor>& parameters, Together together, Alone alone) {
  const auto kind = [&](size_t i) {
    return fused_kernels_take(parameters[i]) ? static_cast<int64_t>(parameters[i].get_device()) : -1;
  };
  for (const auto& entries : group_by(parameters.size(), kind)) {
    if (kind(entries[0]) >= 0) {
      together(entries);
    } else {
      for (const size_t i : entries) alone(i);
    }
  }
}

/// `t` in the type and the memory layout of `parameter`, as the fused kernels take it. (They take no
/// parameter with gaps in its memory, whose layout nothing else can have.)
at::Tensor laid_out(const at::Tensor& t, const at::Tensor& parameter) {
  const auto like = parameter.detach();
  const bool fits = t.strides() == like.strides() || !like.is_non_overlapping_and_dense();
  if (fits && t.device() == like.device() && t.scalar_type() == like.scalar_type()) return t;
  return at::empty_like(like).copy_(t);
}

/// State tensors, made of zeros where there are none yet, in their parameters' layouts.
std::vector<at::Tensor> laid_out_states(const std::vector<at::Tensor*>& states,
                                        const std::vector<at::Tensor>& parameters,
                                        const std::vector<size_t>& entries) {
  std::vector<at::Tensor> result;
  for (const size_t i : entries) {
    auto& state = *states[i];
    const auto like = parameters[i].detach();
    state = state.defined() ? laid_out(state, like) : at::zeros_like(like);
    result.push_back(state);
  }
  return result;
}

std::vector<at::Tensor> laid_out_gradients(const EuclideanParameters& parameters,
                                           const std::vector<size_t>& entries) {
  std::vector<at::Tensor> result;
  for (const size_t i : entries) result.push_back(laid_out(parameters.gradients[i], parameters.values[i]));
  return result;
}

/// Step counts as the fused kernels take them: float32 numbers. Others are converted, all by two kernels.
std::vector<at::Tensor> float_counts(const std::vector<at::Tensor>& steps) {
  if (steps[0].scalar_type() == at::kFloat) return steps;
  return at::stack(steps).to(at::kFloat).unbind();
}

/// p ← p − l·d.
void descend_along(const at::Tensor& p, const at::Tensor& d, double rate) { p.add_(d, -rate); }
void descend_along(const at::Tensor& p, const at::Tensor& d, const at::Tensor& rate) { p.sub_(d.mul(rate)); }

/// p ← p − l·a/b.
void descend_along_quotient(const at::Tensor& p, const at::Tensor& a, const at::Tensor& b, double rate) {
  p.addcdiv_(a, b, -rate);
}
void descend_along_quotient(const at::Tensor& p, const at::Tensor& a, const at::Tensor& b,
                            const at::Tensor& rate) {
  p.sub_(a.div(b).mul_(rate));
}

at::Tensor as_real(const at::Tensor& t) { return t.is_complex() ? at::view_as_real(t.resolve_conj()) : t; }

}  // namespace

template <class Number>
void sgd_formula_(const at::Tensor& parameter, const at::Tensor& gradient, at::Tensor& buffer,
                  const SgdTerms& terms, double weight_decay, const Number& rate) {
  // g ← g + λp;  b ← g at first, then βb + (1 − dampening)g;  p ← p − l·b, with Nesterov p ← p − l·(g + βb)
  auto direction = gradient;
  if (weight_decay != 0) direction = direction.add(parameter, weight_decay);
  if (terms.momentum != 0) {
    if (!buffer.defined()) {
      buffer = direction.detach().clone();
    } else {
      buffer.mul_(terms.momentum).add_(direction, 1 - terms.dampening);
    }
    direction = terms.nesterov ? direction.add(buffer, terms.momentum) : buffer;
  }
  descend_along(parameter, direction, rate);
}

template <class Number>
void adam_formula_(const at::Tensor& parameter, const at::Tensor& gradient, const at::Tensor& average,
                   const at::Tensor& squares, const Number& k, const AdamTerms& terms, double eps,
                   double weight_decay, const Number& rate) {
  using at::pow, at::sqrt, std::pow, std::sqrt;
  const bool decays = weight_decay != 0;
  if (decays && terms.decoupled_weight_decay)
    parameter.mul_(1 - rate * weight_decay);  // AdamW: p ← (1 − lλ)p
  const auto slope = decays && !terms.decoupled_weight_decay ? gradient.add(parameter, weight_decay)
                                                             : gradient;  // g ← g + λp
  average.mul_(terms.beta1).add_(slope, 1 - terms.beta1);                 // m ← β₁m + (1 − β₁)g
  squares.mul_(terms.beta2).addcmul_(slope, slope, 1 - terms.beta2);      // v ← β₂v + (1 − β₂)g²
  const Number bias1 = 1 - pow(terms.beta1, k);
  const Number bias2 = 1 - pow(terms.beta2, k);
  const auto denominator = squares.sqrt().div_(sqrt(bias2)).add_(eps);
  // p ← p − l·(m/(1 − β₁ᵏ))/(√(v/(1 − β₂ᵏ)) + ε)
  descend_along_quotient(parameter, average, denominator, Number(rate / bias1));
}

template void sgd_formula_(const at::Tensor&, const at::Tensor&, at::Tensor&, const SgdTerms&, double,
                           const double&);
template void sgd_formula_(const at::Tensor&, const at::Tensor&, at::Tensor&, const SgdTerms&, double,
                           const at::Tensor&);
template void adam_formula_(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                            const double&, const AdamTerms&, double, double, const double&);
template void adam_formula_(const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                            const at::Tensor&, const AdamTerms&, double, double, const at::Tensor&);

void euclidean_sgd_(const EuclideanParameters& parameters, const std::vector<at::Tensor*>& buffers,
                    const SgdTerms& terms, double weight_decay, GroupRate& rate) {
  const auto alone = [&](size_t i) {
    const auto& parameter = parameters.values[i];
    const auto step = [&](const auto& at_rate) {
      sgd_formula_(parameter, parameters.gradients[i], *buffers[i], terms, weight_decay, at_rate);
    };
    if (parameter.device().is_cpu()) {
      step(rate.value());
    } else {
      step(rate.on(parameter.device()));
    }
  };
  if (terms.dampening != 0) {
    // Below, a first buffer is β·0 + (1 − dampening)g, which is torch's g only without dampening.
    for (size_t i = 0; i < parameters.values.size(); ++i) alone(i);
    return;
  }
  const auto together = [&](const std::vector<size_t>& entries) {
    const auto values = pick(parameters.values, entries);
    const auto momenta = terms.momentum == 0 ? std::vector<at::Tensor>()
                                             : laid_out_states(buffers, parameters.values, entries);
    fused_sgd_(values, laid_out_gradients(parameters, entries), momenta, weight_decay, terms.momentum,
               rate.on(values[0].device(), at::kFloat), terms.dampening, terms.nesterov);
  };
  for_each_parameter(parameters.values, together, alone);
}

void euclidean_adam_(const EuclideanParameters& parameters, const std::vector<at::Tensor*>& averages,
                     const std::vector<at::Tensor*>& squares, const std::vector<at::Tensor>& steps,
                     const AdamTerms& terms, double eps, double weight_decay, GroupRate& rate) {
  const auto together = [&](const std::vector<size_t>& entries) {
    const auto values = pick(parameters.values, entries);
    const auto counts = pick(steps, entries);
    at::_foreach_add_(counts, 1);  // k ← k + 1
    fused_adam_(terms.decoupled_weight_decay, values, laid_out_gradients(parameters, entries),
                laid_out_states(averages, parameters.values, entries),
                laid_out_states(squares, parameters.values, entries), float_counts(counts),
                rate.on(values[0].device(), at::kFloat), terms.beta1, terms.beta2, weight_decay, eps);
  };
  const auto alone = [&](size_t i) {
    const auto& parameter = parameters.values[i];
    for (auto* state : {averages[i], squares[i]}) {
      if (!state->defined()) *state = at::zeros_like(parameter);
    }
    const auto step = [&](const auto& k, const auto& at_rate) {
      adam_formula_(as_real(parameter), as_real(parameters.gradients[i]), as_real(*averages[i]),
                    as_real(*squares[i]), k, terms, eps, weight_decay, at_rate);
    };
    steps[i].add_(1);  // k ← k + 1
    if (parameter.device().is_cpu()) {
      step(steps[i].item<double>(), rate.value());
    } else {
      step(steps[i].to(at::kDouble), rate.on(parameter.device()));
    }
  };
  for_each_parameter(parameters.values, together, alone);
}

void euclidean_rmsprop_(const EuclideanParameters& parameters, const std::vector<at::Tensor*>& squares,
                        double alpha, double eps, double weight_decay, GroupRate& rate) {
  // Multi-tensor kernels take tensors of one type on one device.
  const auto kind = [&](size_t i) {
    const auto& parameter = parameters.values[i];
    return std::make_pair(parameter.scalar_type(), parameter.device().index());
  };
  for (const auto& entries : group_by(parameters.values.size(), kind)) {
    const auto values = pick(parameters.values, entries);
    const auto averages = laid_out_states(squares, parameters.values, entries);
    auto gradients = pick(parameters.gradients, entries);
    if (weight_decay != 0) gradients = at::_foreach_add(gradients, values, weight_decay);  // g ← g + λp
    // v ← αv + (1 − α)g²
    at::_foreach_mul_(averages, alpha);
    at::_foreach_addcmul_(averages, gradients, gradients, 1 - alpha);
    // p ← p − l·g/(√v + ε)
    auto denominators = at::_foreach_sqrt(averages);
    at::_foreach_add_(denominators, eps);
    auto moves = at::_foreach_div(gradients, denominators);
    foreach_mul_(
        moves, rate.on(values[0].device(), values[0].scalar_type() == at::kFloat ? at::kFloat : at::kDouble));
    at::_foreach_sub_(values, moves);
  }
}

}  // namespace stiefel::detail
