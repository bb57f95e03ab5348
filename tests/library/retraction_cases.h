#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "reference.h"
#include "tests/support.h"

// The retractions under test, each beside its definition: dense formulas in double, tall matrices X (n×p).

namespace cases {

using at::Tensor;

/// A random weight on the manifold.
inline Tensor haar(at::IntArrayRef shape, at::ScalarType type) {
  auto weight = torch::empty(shape, type);
  return stiefel::init::haar_(weight);
}

/// Re tr AᴴB.
inline Tensor real_dot(const Tensor& a, const Tensor& b) {
  const auto product = a.conj() * b;
  return (product.is_complex() ? at::real(product) : product).sum();
}
using Groups = std::vector<torch::optim::OptimizerParamGroup>;

/// ξ, the tangent part of D: D − X ½(XᴴD + DᴴX).
inline Tensor project(const Tensor& x, const Tensor& d) {
  return d - x.mm(0.5 * (x.mH().mm(d) + d.mH().mm(x)));
}

/// The Q factor with positive diagonal of R by Gram and Schmidt, each column against the former ones twice.
inline Tensor unique_q(const Tensor& y) {
  std::vector<Tensor> columns;
  for (int64_t j = 0; j < y.size(1); ++j) {
    auto v = y.narrow(1, j, 1).clone();
    for (int round = 0; round < 2; ++round) {
      for (const auto& q : columns) v = v - q.mm(q.mH().mm(v));
    }
    columns.push_back(v / v.abs().square().sum().sqrt());
  }
  return at::cat(columns, 1);
}

/// Where X goes along −lξ, by the definition.
using Definition = std::function<Tensor(const Tensor& x, const Tensor& xi, double l)>;

inline Tensor polar(const Tensor& x, const Tensor& xi, double l) { return reference::polar(x - l * xi); }
inline Tensor qr(const Tensor& x, const Tensor& xi, double l) { return unique_q(x - l * xi); }
/// (I + (l/2)W)⁻¹(I − (l/2)W)X.
inline Tensor cayley(const Tensor& x, const Tensor& xi, double l) {
  return reference::closed_form(x, reference::generator(x, xi), -l);
}

/// skew(ξXᴴ)X with the n×n matrix. Taking the tangent part first changes nothing: skew forgets XΣXᴴ.
inline Tensor relative(const Tensor& x, const Tensor& xi) {
  return 0.5 * (xi.mm(x.mH()) - x.mm(xi.mH())).mm(x);
}

inline Tensor gram_error(const Tensor& x) { return x.mH().mm(x) - torch::eye(x.size(1), x.options()); }

/// Y = X − lξ, then Y + ½Y(I − YᴴY).
inline Tensor pogo(const Tensor& x, const Tensor& xi, double l) {
  const auto y = x - l * relative(x, xi);
  return y - 0.5 * y.mm(gram_error(y));
}

/// Where landing's step of `landing`'s options goes, and whether it was cut short. The longest safe step is
/// searched for, by halving, where the library has a formula.
struct Landed {
  Tensor x;
  bool cut = false;
};
inline Landed land(const Tensor& x, const Tensor& xi, double l, const stiefel::Landing& options) {
  const auto e = gram_error(x);
  const auto f = relative(x, xi) + options.lambda * x.mm(e);
  const double d = e.abs().square().sum().sqrt().item<double>(), g2 = f.abs().square().sum().item<double>();
  const auto safe = [&](double eta) {  // the bound of the next ‖E‖
    return d - 2 * eta * options.lambda * d * (1 - d) + eta * eta * g2 <=
           0.9999 * options.epsilon;  // 1e-4 of it is for rounding
  };
  double eta = std::min(l, 0.5 / options.lambda);
  Landed result;
  if (!safe(eta)) {
    double low = 0, high = eta;
    for (int i = 0; i < 200; ++i) (safe((low + high) / 2) ? low : high) = (low + high) / 2;
    eta = low;
  }
  result.cut = eta < l;
  result.x = x - eta * f;
  return result;
}
inline Tensor landing(const Tensor& x, const Tensor& xi, double l) {
  return land(x, xi, l, stiefel::Landing()).x;
}

struct Case {
  std::string name;
  Definition definition;
  bool repairs;  ///< whether a step draws a drifted point in; the others are isometries
  std::function<Tensor(const Tensor& point, const Tensor& tangent)> retract;  ///< empty where it is none
  std::function<void(const stiefel::Descent& step)> descend;

  /// The optimisers with this retraction. `batched` reads parameters as stacks.
  std::function<std::unique_ptr<stiefel::ManifoldOptimizer>(const std::vector<Tensor>& parameters, double lr,
                                                            double momentum, bool batched)>
      sgd;
  std::function<std::unique_ptr<stiefel::ManifoldOptimizer>(const std::vector<Tensor>& parameters, double lr,
                                                            stiefel::SearchOptions search)>
      search;
};

template <class Retraction>
Case make_case(const std::string& name, Retraction retraction, Definition definition, bool repairs) {
  Case result;
  result.name = name;
  result.definition = definition;
  result.repairs = repairs;
  if constexpr (std::is_invocable_v<const Retraction&, const Tensor&, const Tensor&>) {
    result.retract = retraction;
  }
  result.descend = [retraction](const stiefel::Descent& step) { stiefel::descend_(retraction, step); };
  result.sgd = [retraction](const std::vector<Tensor>& parameters, double lr, double momentum, bool batched) {
    auto options = stiefel::RetractionSGDOptions<Retraction>(lr).momentum(momentum).batched(batched);
    options.retraction(retraction);
    return std::make_unique<stiefel::RetractionSGD<Retraction>>(parameters, options);
  };
  result.search = [retraction](const std::vector<Tensor>& parameters, double lr,
                               stiefel::SearchOptions search) {
    auto options = stiefel::RetractionSGDOptions<Retraction>(lr).retraction(retraction);
    return std::make_unique<stiefel::CurvilinearSearch<Retraction>>(parameters, options, search);
  };
  return result;
}

inline stiefel::Polar newton_schulz(int64_t rounds = 12) {
  stiefel::Polar polar;
  polar.by = stiefel::Polar::By::kNewtonSchulz;
  polar.rounds = rounds;
  return polar;
}

inline stiefel::Qr cholesky_qr() {
  stiefel::Qr qr;
  qr.by = stiefel::Qr::By::kCholesky;
  return qr;
}

inline const std::vector<Case>& all() {
  static const std::vector<Case> list{
      make_case("polar", stiefel::Polar(), polar, true),
      make_case("polar-ns", newton_schulz(), polar, true),
      make_case("qr", stiefel::Qr(), qr, true),
      make_case("cholesky-qr", cholesky_qr(), qr, true),
      make_case("wen-yin", stiefel::WenYin(), cayley, false),
      make_case("cayley-closed", stiefel::CayleyClosed(), cayley, false),
      make_case("cayley-exact", stiefel::CayleyExact(), cayley, true),
  };
  return list;
}

/// The retractions, and the two methods that come near the manifold without one.
inline const std::vector<Case>& every() {
  static const std::vector<Case> list = [] {
    auto cases = all();
    cases.push_back(make_case("pogo", stiefel::Pogo(), pogo, true));
    cases.push_back(make_case("landing", stiefel::Landing(), landing, false));
    return cases;
  }();
  return list;
}

inline const std::vector<at::ScalarType> kTypes{at::kDouble, at::kComplexDouble};

}  // namespace cases
