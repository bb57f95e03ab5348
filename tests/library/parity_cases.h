#pragma once

#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <cmath>
#include <memory>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "reference.h"

/// Random shapes and options, and the library stepped beside the reference on them.
namespace parity {

using at::Tensor;
using reference::Norm;
using reference::Options;
using reference::Point;

/// One parameter (or stack) and how it is stepped.
struct Case {
  std::vector<int64_t> shape;
  bool batched = false;
  bool complex = false;
  bool adam = false;
  Options options;

  /// 1×1 or 2×1.
  bool tiny() const {
    return shape == std::vector<int64_t>{1, 1} || shape == std::vector<int64_t>{1, 2} ||
           shape == std::vector<int64_t>{2, 1};
  }
  at::ScalarType type() const { return complex ? at::kComplexDouble : at::kDouble; }
};

inline std::ostream& operator<<(std::ostream& out, const Case& c) {
  const auto& o = c.options;
  out << (c.adam ? "Cayley ADAM" : "Cayley SGD") << (c.complex ? " complex " : " real ") << c.shape
      << (c.batched ? " batched" : "") << ", rate " << o.rate << ", betas " << o.beta1 << " " << o.beta2
      << ", q " << o.q << ", eps " << o.eps;
  if (o.exact) return out << ", exact, polish " << o.polish;
  return out << ", s " << o.iterations << ", norm " << static_cast<int>(o.norm) << ", polish " << o.polish;
}

inline stiefel::Norm library_norm(Norm norm) {
  switch (norm) {
    case Norm::kOne:
      return stiefel::Norm::kOne;
    case Norm::kSpectral:
      return stiefel::Norm::kSpectral;
    case Norm::kFrobenius:
      break;
  }
  return stiefel::Norm::kFrobenius;
}

template <class LibraryOptions>
LibraryOptions translate(const Case& c) {
  const auto& o = c.options;
  auto options = LibraryOptions(o.rate);
  options.batched(c.batched).q(o.q).eps(o.eps).iterations(o.iterations).exact(o.exact).polish(o.polish);
  options.norm(library_norm(o.norm));
  return options;
}

inline std::unique_ptr<stiefel::ManifoldOptimizer> make_optimizer(std::vector<Tensor> parameters,
                                                                  const Case& c) {
  if (c.adam) {
    auto options = translate<stiefel::CayleyAdamOptions>(c).betas({c.options.beta1, c.options.beta2});
    return std::make_unique<stiefel::CayleyAdam>(std::move(parameters), options);
  }
  auto options = translate<stiefel::CayleySGDOptions>(c).momentum(c.options.beta1);
  return std::make_unique<stiefel::CayleySGD>(std::move(parameters), options);
}

/// The momentum that the library keeps for its only parameter. It has the sign of the gradient.
inline Tensor only_momentum(stiefel::ManifoldOptimizer& optimizer, const Case& c) {
  auto& state = *optimizer.state().begin()->second;
  return c.adam ? static_cast<stiefel::CayleyAdamParamState&>(state).exp_avg
                : static_cast<stiefel::CayleySGDParamState&>(state).momentum_buffer;
}

inline void reference_step(Point& point, const Tensor& g, const Case& c) {
  c.adam ? reference::adam_step(point, g, c.options) : reference::sgd_step(point, g, c.options);
}

inline double size_of(const Tensor& t) { return t.abs().max().item<double>(); }

/// The largest difference of any entry, relative to the largest entry where that is above 1 (an iteration
/// that has drifted can have grown). A NaN counts as infinite.
inline double gap(const Tensor& ours, const Tensor& theirs) {
  const double difference = size_of(ours - theirs) / std::max(1.0, size_of(theirs));
  return std::isnan(difference) ? INFINITY : difference;
}

/// A gradient whose matrices have the Frobenius norm 1 on average, so that rates mean the same for every
/// shape.
inline Tensor random_gradient(const Tensor& weight, int64_t matrices) {
  return torch::randn_like(weight) /
         std::sqrt(static_cast<double>(weight.numel()) / static_cast<double>(matrices));
}

struct Outcome {
  double point = 0;     ///< the worst gap of X over the run
  double momentum = 0;  ///< the gap of M at the end
  double turn = 0;      ///< the largest α‖W‖_F of the run
  double drift = 0;     ///< the reference's defect at the end
  bool capped = false;  ///< whether the cap ever held
};

/// Steps a fresh point with the library and with the reference, gradient by gradient.
inline Outcome compare(const Case& c, int64_t steps) {
  auto weight = reference::orthonormal_weight(c.shape, c.batched, c.type());
  std::vector<Point> points;
  for (const auto& x : reference::tall(weight, c.batched)) points.emplace_back(x);
  auto optimizer = make_optimizer({weight}, c);
  Outcome outcome;
  for (int64_t step = 0; step < steps; ++step) {
    weight.mutable_grad() = random_gradient(weight, static_cast<int64_t>(points.size()));
    const auto gradients = reference::tall(weight.grad(), c.batched);
    optimizer->step();
    const auto ours = reference::tall(weight, c.batched);
    for (size_t i = 0; i < points.size(); ++i) {
      reference_step(points[i], gradients[i], c);
      outcome.point = std::max(outcome.point, gap(ours[i], points[i].x));
      outcome.turn = std::max(outcome.turn, points[i].turn);
      outcome.capped |= points[i].capped;
    }
  }
  const auto momenta = reference::tall(only_momentum(*optimizer, c), c.batched);
  for (size_t i = 0; i < points.size(); ++i) {
    const auto theirs = c.adam ? points[i].m : -points[i].m;
    outcome.momentum = std::max(outcome.momentum, gap(momenta[i], theirs));
    outcome.drift = std::max(outcome.drift, reference::defect(points[i].x));
  }
  return outcome;
}

/// Random shapes of every kind and random options, the same in every run.
class Cases {
 public:
  explicit Cases(uint32_t seed) : random_(seed) { torch::manual_seed(seed); }

  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  double uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  bool coin() { return between(0, 1) == 1; }

  static constexpr int kKinds = 10;

  Case make(int kind, bool complex, bool adam) {
    Case c;
    c.complex = complex;
    c.adam = adam;
    const int64_t p = between(2, 9);
    switch (kind) {
      case 0:
        c.shape = {p, p + between(1, 4 * p)};
        break;
      case 1:
        c.shape = {p + between(1, 4 * p), p};
        break;
      case 2:
        c.shape = {p, p};
        break;
      case 3:
        c.shape = {1, between(1, 30)};
        break;
      case 4:
        c.shape = {coin() ? between(1, 2) : between(3, 30), 1};
        break;
      case 5:
        c.shape = {between(2, 12), between(2, 4), 3, 3};
        break;
      case 6:
        c.shape = {p + 2, p + 2 + between(1, p)};  // n < 2p: W has full rank
        break;
      case 7:
        c.shape = {p, p * between(4, 8)};  // thin: the literal step takes its coefficient form
        break;
      case 8:
        c.shape = {between(2, 4), p, p + between(0, 3 * p)};
        c.batched = true;
        break;
      default:
        c.shape = {2, between(1, 3), p + between(1, 3 * p), p};
        c.batched = true;
        break;
    }
    c.options.beta1 = adam ? uniform(0.5, 0.95) : (coin() ? 0.9 : uniform(0, 0.9));
    c.options.beta2 = uniform(0.9, 0.999);
    c.options.eps = coin() ? 1e-8 : uniform(1e-6, 1e-3);
    c.options.iterations = between(1, 5);
    const Norm norms[] = {Norm::kFrobenius, Norm::kFrobenius, Norm::kOne, Norm::kSpectral};
    c.options.norm = norms[between(0, 3)];
    return c;
  }

  /// Every kind of shape, real and complex, both optimisers, `rounds` times each.
  std::vector<Case> all(int rounds) {
    std::vector<Case> cases;
    for (int round = 0; round < rounds; ++round) {
      for (int kind = 0; kind < kKinds; ++kind) {
        for (const bool complex : {false, true}) {
          for (const bool adam : {false, true}) cases.push_back(make(kind, complex, adam));
        }
      }
    }
    return cases;
  }

  /// A rate at which α‖W‖_F is about `turn`: with gradients of norm 1, M is about 1/√(1 − β²) long under
  /// Cayley SGD and M/r at most about 1 under Cayley ADAM, and ‖W‖_F ≤ √2‖M‖.
  static double rate_for(double turn, const Case& c) {
    return turn / (c.adam ? std::sqrt(2.0) : std::sqrt(2 / (1 - c.options.beta1 * c.options.beta1)));
  }

 private:
  std::mt19937 random_;
};

}  // namespace parity
