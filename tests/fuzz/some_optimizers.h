#pragma once

#include <stiefel/stiefel.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fuzz {

/// An optimizer over a few parameters of every kind, small enough to be made a thousand times a second.
struct SomeOptimizer {
  std::vector<at::Tensor> parameters;
  std::unique_ptr<torch::optim::Optimizer> optimizer;
  bool own_archive = true;  ///< ours, and not LibTorch's
};

inline void set_gradients(const std::vector<at::Tensor>& parameters) {
  for (const auto& parameter : parameters) parameter.mutable_grad() = at::full_like(parameter, 0.01).detach();
}

inline std::vector<at::Tensor> some_parameters() {
  std::vector<at::Tensor> all;
  const auto point = [](at::IntArrayRef shape, at::ScalarType type) {
    const auto eye = at::eye(shape[0], shape[1], at::TensorOptions().dtype(at::kDouble)).to(type);
    return eye.clone().requires_grad_();
  };
  all.push_back(point({2, 3}, at::kFloat));
  all.push_back(point({2, 2}, at::kComplexDouble));
  all.push_back(point({3, 2}, at::kBFloat16));
  all.push_back(at::ones({3}).requires_grad_());
  return all;
}

using Groups = std::vector<torch::optim::OptimizerParamGroup>;

inline Groups some_groups(const std::vector<at::Tensor>& p, const torch::optim::OptimizerOptions& free) {
  return {{{p[0], p[1], p[2]}}, {{p[3]}, free.clone()}};
}

template <class Optimizer, class Options>
std::unique_ptr<torch::optim::Optimizer> make(const std::vector<at::Tensor>& p, Options on, Options free) {
  return std::make_unique<Optimizer>(some_groups(p, free.manifold(stiefel::Manifold::kEuclidean)), on);
}

template <class Retraction>
std::unique_ptr<torch::optim::Optimizer> make_retraction(const std::vector<at::Tensor>& p) {
  using Options = stiefel::RetractionSGDOptions<Retraction>;
  return make<stiefel::RetractionSGD<Retraction>>(p, Options(0.1).momentum(0.9), Options(0.1).momentum(0.5));
}

constexpr int64_t kOptimizers = 15;

inline SomeOptimizer some_optimizer(int64_t kind) {
  using namespace stiefel;
  const auto p = some_parameters();
  const auto own = [&](std::unique_ptr<torch::optim::Optimizer> made) {
    return SomeOptimizer{p, std::move(made), true};
  };
  const auto torchs = [&](auto made) { return SomeOptimizer{{p[0], p[3]}, std::move(made), false}; };
  const std::vector<at::Tensor> free{p[0], p[3]};  // any parameters, but for the search's first
  switch (kind) {
    case 0:
      return own(
          make<CayleySGD>(p, CayleySGDOptions(0.1).momentum(0.9), CayleySGDOptions(0.1).momentum(0.5)));
    case 1:
      return own(make<CayleyAdam>(p, CayleyAdamOptions(0.1), CayleyAdamOptions(0.1)));
    case 2:
      return own(make<CayleyMuon>(p, CayleyMuonOptions(0.1), CayleyMuonOptions(0.1)));
    case 3:
      return own(make_retraction<Polar>(p));
    case 4:
      return own(make_retraction<Qr>(p));
    case 5:
      return own(make_retraction<WenYin>(p));
    case 6:
      return own(make_retraction<CayleyClosed>(p));
    case 7:
      return own(make_retraction<CayleyExact>(p));
    case 8:
      return own(make_retraction<Pogo>(p));
    case 9:
      return own(make_retraction<Landing>(p));
    case 10: {
      using Options = RetractionSGDOptions<WenYin>;
      const auto line = Options(0.1).manifold(Manifold::kEuclidean);  // real numbers only
      return {free,
              std::make_unique<CurvilinearSearch<>>(Groups{{{p[0]}}, {{p[3]}, line.clone()}}, Options(0.1)),
              true};
    }
    case 11:
      return torchs(std::make_unique<SGD>(free, torch::optim::SGDOptions(0.1).momentum(0.9)));
    case 12:
      return torchs(std::make_unique<Adam>(free, torch::optim::AdamOptions(0.1)));
    case 13:
      return torchs(std::make_unique<AdamW>(free, torch::optim::AdamWOptions(0.1)));
    default:
      return torchs(std::make_unique<RMSprop>(free, torch::optim::RMSpropOptions(0.1).momentum(0.9)));
  }
}

inline void take_step(const SomeOptimizer& it) {
  set_gradients(it.parameters);
  it.optimizer->step([] { return at::ones({}); });
}

}  // namespace fuzz
