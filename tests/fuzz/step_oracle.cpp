#include "step_oracle.h"

#include <stiefel/stiefel.h>

#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "target.h"
#include "tests/library/reference.h"
#include "torch_errors.h"

namespace fuzz {

namespace {

using at::Tensor;

enum class Method {
  kCayleySgd,
  kCayleyAdam,
  kCayleyMuon,
  kPolar,
  kPolarNs,
  kQr,
  kCholeskyQr,
  kWenYin,
  kCayleyClosed,
  kCayleyExact,
  kPogo,
  kLanding
};

struct Trial {
  Method method = Method::kCayleySgd;
  at::ScalarType type = at::kFloat;
  std::vector<int64_t> shape;
  bool batched = false;
  int layout = 0;  // of the weight: 0 contiguous, 1 channels-last or transposed, 2 part of a larger tensor
  double rate = 0.1;
  double momentum = 0;
  double beta2 = 0.99;
  stiefel::CayleyOptions cayley;
  stiefel::PolarOptions polar;
  bool nesterov = false;

  bool is_complex() const { return at::isComplexType(type); }
  bool is_reduced() const { return type == at::kHalf || type == at::kBFloat16; }
  bool is_cayley() const { return method == Method::kCayleySgd || method == Method::kCayleyAdam; }

  std::string text() const {
    std::ostringstream out;
    out << "method " << static_cast<int>(method) << ", " << type << " " << at::IntArrayRef(shape)
        << (batched ? " batched" : "") << ", layout " << layout << ", rate " << rate << ", momentum "
        << momentum << ", beta2 " << beta2 << ", q " << cayley.q << ", eps " << cayley.eps << ", s "
        << cayley.iterations << (cayley.exact ? ", exact" : "") << ", norm "
        << stiefel::to_string(cayley.norm) << (cayley.polish ? "" : ", not polished") << ", rounds "
        << polar.rounds << (polar.exact_root ? ", exact root" : "") << (nesterov ? ", nesterov" : "");
    return out.str();
  }
};

int64_t draw_size(Choices& choices) {
  switch (choices.between(0, 7)) {
    case 0:
      return 1;
    case 1:
    case 2:
    case 3:
      return choices.between(1, 6);
    case 4:
    case 5:
    case 6:
      return choices.between(2, 24);
    default:
      return choices.between(1, 200);
  }
}

std::vector<int64_t> draw_shape(Choices& choices, bool& batched) {
  const int64_t p = draw_size(choices), n = draw_size(choices);
  switch (choices.between(0, 6)) {
    case 0:
    case 1:
      return {p, n};
    case 2:
      return {p, p};
    case 3:
      return {p, p + choices.between(1, 3 * p)};
    case 4:
      return {std::min<int64_t>(p, 40), choices.between(1, 5), choices.between(1, 3), choices.between(1, 3)};
    case 5:
      batched = true;
      return {choices.between(0, 4), std::min<int64_t>(p, 40), std::min<int64_t>(n, 40)};
    default:
      batched = true;
      return {choices.between(1, 2), choices.between(1, 2), std::min<int64_t>(p, 20),
              std::min<int64_t>(n, 20)};
  }
}

Trial draw_trial(Choices& choices) {
  Trial t;
  t.method = static_cast<Method>(choices.between(0, 11));
  // The first ones more often.
  if (choices.coin()) t.method = static_cast<Method>(choices.between(0, 2));
  t.type = choices.pick(
      {at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble, at::kHalf, at::kBFloat16});
  t.shape = draw_shape(choices, t.batched);
  t.layout = static_cast<int>(choices.between(0, 2));
  t.rate = std::pow(10.0, static_cast<double>(choices.between(-12, 3)));
  if (choices.coin()) t.rate = choices.pick({0.1, 0.2, 0.01, 0.4, 0.0});
  t.momentum = choices.pick({0.9, 0.0, 0.5, 0.99});
  t.beta2 = choices.pick({0.99, 0.9, 0.999, 0.0});
  t.cayley.q = choices.pick({0.5, 0.5, 0.1, 0.9, 0.99});
  t.cayley.eps = choices.pick({1e-8, 1e-8, 0.0, 1e-3});
  t.cayley.iterations = choices.pick<int64_t>({2, 2, 1, 3, 5, 0, 10});
  t.cayley.exact = choices.between(0, 5) == 1;
  t.cayley.norm = choices.pick(
      {stiefel::Norm::kFrobenius, stiefel::Norm::kFrobenius, stiefel::Norm::kOne, stiefel::Norm::kSpectral});
  t.cayley.polish = choices.between(0, 7) != 1;
  t.polar.rounds = choices.between(1, 5);
  t.polar.exact_root = choices.between(0, 3) == 1;
  t.nesterov = choices.coin();
  return t;
}

template <class Retraction>
std::unique_ptr<stiefel::ManifoldOptimizer> make_retraction(const Tensor& weight, const Trial& t,
                                                            Retraction retraction) {
  auto options = stiefel::RetractionSGDOptions<Retraction>(t.rate).momentum(t.momentum).batched(t.batched);
  options.retraction(retraction);
  return std::make_unique<stiefel::RetractionSGD<Retraction>>(std::vector<Tensor>{weight}, options);
}

template <class Options>
Options with_cayley(const Trial& t) {
  auto options = Options(t.rate);
  const auto& c = t.cayley;
  options.batched(t.batched)
      .q(c.q)
      .eps(c.eps)
      .iterations(c.iterations)
      .exact(c.exact)
      .norm(c.norm)
      .polish(c.polish);
  return options;
}

std::unique_ptr<stiefel::ManifoldOptimizer> make_optimizer(const Tensor& weight, const Trial& t) {
  using namespace stiefel;
  const std::vector<Tensor> weights{weight};
  Polar newton_schulz;
  newton_schulz.by = Polar::By::kNewtonSchulz;
  Qr cholesky;
  cholesky.by = Qr::By::kCholesky;
  switch (t.method) {
    case Method::kCayleySgd:
      return std::make_unique<CayleySGD>(weights, with_cayley<CayleySGDOptions>(t).momentum(t.momentum));
    case Method::kCayleyAdam:
      return std::make_unique<CayleyAdam>(weights,
                                          with_cayley<CayleyAdamOptions>(t).betas({t.momentum, t.beta2}));
    case Method::kCayleyMuon: {
      auto options = CayleyMuonOptions(t.rate).momentum(t.momentum).nesterov(t.nesterov && t.momentum > 0);
      options.batched(t.batched).rounds(t.polar.rounds).exact_root(t.polar.exact_root);
      options.iterations(t.cayley.iterations).exact(t.cayley.exact);
      return std::make_unique<CayleyMuon>(weights, options);
    }
    case Method::kPolar:
      return make_retraction(weight, t, Polar());
    case Method::kPolarNs:
      return make_retraction(weight, t, newton_schulz);
    case Method::kQr:
      return make_retraction(weight, t, Qr());
    case Method::kCholeskyQr:
      return make_retraction(weight, t, cholesky);
    case Method::kWenYin:
      return make_retraction(weight, t, WenYin());
    case Method::kCayleyClosed:
      return make_retraction(weight, t, CayleyClosed());
    case Method::kCayleyExact:
      return make_retraction(weight, t, CayleyExact());
    case Method::kPogo:
      return make_retraction(weight, t, Pogo());
    case Method::kLanding:
      break;
  }
  return make_retraction(weight, t, Landing());
}

/// The numbers of `tensor` in another layout.
Tensor lay_out(const Tensor& tensor, int layout) {
  if (layout == 0 || tensor.dim() < 2) return tensor.clone();
  if (layout == 1) {
    return tensor.dim() == 4 ? tensor.clone(at::MemoryFormat::ChannelsLast)
                             : tensor.transpose(-1, -2).contiguous().transpose(-1, -2);
  }
  auto sizes = tensor.sizes().vec();
  sizes.back() += 3;
  auto whole = at::zeros(sizes, tensor.options());
  auto part = whole.narrow(-1, 1, tensor.size(-1));
  part.copy_(tensor);
  return part;
}

/// The matrices of a weight as a stack of tall ones in double, as the reference has them.
Tensor stack(const Tensor& weight, bool batched) {
  const auto all = reference::tall(weight, batched);
  return all.empty() ? Tensor() : at::stack(all);
}

/// A gradient, finite but where `broken` says which matrix is not.
Tensor draw_gradient(const Tensor& weight, const Trial& t, Choices& choices, int64_t& broken) {
  const auto wide = t.is_complex() ? at::kComplexDouble : at::kDouble;
  auto g = at::randn(weight.sizes(), at::TensorOptions().dtype(wide));
  const auto x = weight.detach().to(wide);
  switch (choices.between(0, 8)) {
    case 0:
    case 1:
      break;
    case 2:
      g.zero_();
      break;
    case 3:  // of rank one, or a single entry
      if (g.numel() > 0) {
        const auto first = g.flatten()[0].clone();
        g.zero_();
        g.view(-1)[0] = first;
      }
      break;
    case 4:  // normal to the manifold, up to rounding
      g = x.clone();
      break;
    case 5:  // nearly critical
      g = x + 1e-7 * g;
      break;
    case 6:  // a large normal part
      g = 1e4 * x + g;
      break;
    case 7:
      g = g.sgn() * g.abs().pow(8);
      break;
    default:  // alike everywhere, of rank one
      g.fill_(1);
      break;
  }
  const bool is_double = t.type == at::kDouble || t.type == at::kComplexDouble;
  const auto exponent = choices.coin() ? choices.between(-3, 2) : choices.between(-30, 30);
  g = g * std::pow(10.0, static_cast<double>(exponent));
  if (choices.between(0, 15) == 1) g = g * (is_double ? 1e-300 : 1e-15);  // down to denormal numbers
  const auto most = t.type == at::kHalf ? 6e4 : 1e38;
  auto real = g.is_complex() ? at::view_as_real(g) : g;
  real.nan_to_num_(0, most, -most).clamp_(-most, most);
  g = g.to(t.type);
  broken = -1;
  if (choices.between(0, 7) == 1 && g.numel() > 0) {
    const int64_t matrices = t.batched ? g.numel() / (g.size(-1) * g.size(-2)) : 1;
    broken = choices.between(0, matrices - 1);
    g = g.contiguous();
    g.view({matrices, -1})[broken][choices.between(0, g.numel() / matrices - 1)] = choices.pick(
        {static_cast<double>(NAN), static_cast<double>(INFINITY), -static_cast<double>(INFINITY)});
  }
  return lay_out(g, static_cast<int>(choices.between(0, 2)));
}

/// The float32 point of a half or bfloat16 parameter, else the parameter.
Tensor point_of(stiefel::ManifoldOptimizer& optimizer, const Tensor& weight) {
  for (const auto& entry : optimizer.state()) {
    const auto& state = static_cast<const stiefel::ParamState&>(*entry.second);
    if (state.master.defined()) return state.master.clone();
  }
  return weight.detach().clone();
}

/// How far from the manifold a step may leave a matrix, ‖XᴴX − I‖_F/√p.
double allowed_defect(const Trial& t) {
  // By design.
  if (t.method == Method::kLanding || t.method == Method::kPogo) return 0.51;
  return 1e-3;
}

std::string short_text(double value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

bool has_reference(const Trial& t) {
  return t.is_cayley() && (t.type == at::kDouble || t.type == at::kComplexDouble) && t.cayley.polish &&
         t.cayley.norm != stiefel::Norm::kSpectral && t.cayley.iterations >= 1 && t.rate <= 1 &&
         t.cayley.eps > 0;
}

reference::Options reference_options(const Trial& t) {
  reference::Options o;
  o.rate = t.rate;
  o.beta1 = t.momentum;
  o.beta2 = t.beta2;
  o.q = t.cayley.q;
  o.eps = t.cayley.eps;
  o.iterations = t.cayley.iterations;
  o.exact = t.cayley.exact;
  o.norm = t.cayley.norm == stiefel::Norm::kOne ? reference::Norm::kOne : reference::Norm::kFrobenius;
  return o;
}

}  // namespace

StepSeen check_steps(Choices& choices) {
  StepSeen seen;
  const auto t = draw_trial(choices);
  torch::manual_seed(static_cast<uint64_t>(choices.between(0, 65535)));
  const auto on_failure = [&](const std::string& what) { broken(what + " (" + t.text() + ")"); };

  const auto exact_type = t.is_reduced() ? at::kFloat : t.type;
  auto start = at::empty(t.shape, at::TensorOptions().dtype(exact_type));
  std::unique_ptr<stiefel::ManifoldOptimizer> optimizer;
  Tensor weight;
  if (!goes_through([&] {
        if (start.numel() > 0) stiefel::init::haar_(start, t.batched);
        weight = lay_out(start.to(t.type), t.layout).requires_grad_();
        optimizer = make_optimizer(weight, t);
      })) {
    return seen;  // an empty weight, or options that do not go together
  }

  std::vector<reference::Point> points;
  if (has_reference(t) && weight.numel() > 0) {
    for (const auto& x : reference::tall(weight, t.batched)) points.emplace_back(x);
  }
  const auto options = reference_options(t);
  const auto steps = choices.between(1, 4);
  for (int64_t step = 0; step < steps; ++step) {
    int64_t broken_matrix = -1;
    const auto gradient = draw_gradient(weight, t, choices, broken_matrix);
    weight.mutable_grad() = gradient;
    const auto before = point_of(*optimizer, weight);
    const auto skipped = optimizer->skipped_steps();
    try {
      optimizer->step();
    } catch (const std::exception& error) {
      on_failure(std::string("a step throws: ") + error.what());
    }
    ++seen.steps;
    const auto left = optimizer->skipped_steps() - skipped;
    seen.left += left;
    if (weight.numel() == 0) continue;
    const auto after = point_of(*optimizer, weight);
    const auto x = stack(after, t.batched), old = stack(before, t.batched);
    const auto p = x.size(2);
    // Of what is finite in it.
    const double size = stack(gradient, t.batched)
                            .abs()
                            .nan_to_num_(0, 0, 0)
                            .square()
                            .sum({1, 2})
                            .sqrt()
                            .max()
                            .item<double>();
    const auto where = ", step " + std::to_string(step) + ", a gradient of " + short_text(size);
    if (!at::isfinite(x).all().item<bool>()) on_failure("a matrix is not finite" + where);
    if (t.cayley.polish || !(t.is_cayley())) {
      const auto e = at::bmm(x.mH(), x) - at::eye(p, x.options());
      const double defect =
          e.abs().square().sum({1, 2}).sqrt().max().item<double>() / std::sqrt(static_cast<double>(p));
      seen.defect = std::max(seen.defect, defect);
      if (!(defect <= allowed_defect(t))) on_failure("a defect of " + short_text(defect) + where);
    }
    if (broken_matrix >= 0) {
      if (left < 1) on_failure("a gradient that is not finite is not counted");
      if (!at::equal(x[broken_matrix], old[broken_matrix]))
        on_failure("a gradient that is not finite moves its matrix");
    }
    if (points.empty()) continue;
    // The reference takes no part where the library leaves a matrix, nor where squares leave the range.
    const auto gradients = reference::tall(gradient, t.batched);
    const double largest = stack(gradient, t.batched).abs().max().item<double>();
    if (left > 0 || !(largest <= 1e6) || (largest != 0 && largest < 1e-12)) {
      points.clear();
      continue;
    }
    for (size_t i = 0; i < points.size(); ++i) {
      auto& point = points[i];
      t.method == Method::kCayleyAdam ? reference::adam_step(point, gradients[i], options)
                                      : reference::sgd_step(point, gradients[i], options);
      if (!(point.turn <=
            0.7)) {  // past that the series of the exit correction differs from the polar factor
        points.clear();
        break;
      }
      const double gap = (x[static_cast<int64_t>(i)] - point.x).abs().max().item<double>();
      seen.gap = std::max(seen.gap, gap);
      ++seen.compared;
      if (!(gap <= 1e-5)) on_failure("a gap of " + short_text(gap) + " to the reference" + where);
    }
  }
  return seen;
}

}  // namespace fuzz
