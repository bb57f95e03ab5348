#pragma once

#include <stiefel/export.h>
#include <stiefel/optim/retraction_sgd.h>

#include <functional>
#include <utility>
#include <vector>

namespace stiefel {

/// The constants of the search; the defaults are Wen and Yin's.
struct STIEFEL_API SearchOptions {
  double rho = 1e-4;     ///< how much of the slope's promise a step must keep (Armijo)
  double shrink = 0.1;   ///< what a refused step is multiplied by
  double memory = 0.85;  ///< η: 0 compares with the last value (monotone), towards 1 with a long average
  int64_t tries = 5;     ///< trials, after which a step is taken as it is where the function is finite
  double least = 1e-20;  ///< the bounds of the step
  double most = 1e20;

  void validate() const;
};

namespace detail {

/// The search over all parameters of an optimiser at once: they move along their curves by one common step τ.
/// It is the optimiser's business to move them; the search sets τ as every group's rate.
class STIEFEL_API Search {
 public:
  explicit Search(SearchOptions options) : options_(options) { options_.validate(); }

  /// One accepted step. `move` takes the parameters from where they are along their gradients at their
  /// groups' rates.
  at::Tensor step(std::vector<torch::optim::OptimizerParamGroup>& groups,
                  const std::function<at::Tensor()>& closure, const std::function<void()>& move);

  void save(torch::serialize::OutputArchive& archive) const;
  void load(torch::serialize::InputArchive& archive);

 private:
  struct Iterate;
  void propose(std::vector<torch::optim::OptimizerParamGroup>& groups, const std::vector<Iterate>& from,
               const std::vector<Iterate>& to);

  SearchOptions options_;
  double reference_ = 0;  // C, the average of past values that a new one must undercut
  double weight_ = 0;     // Q, its weight; 0 before the first step
  int64_t steps_ = 0;
};

}  // namespace detail

/// Curvilinear search with Barzilai–Borwein steps (Wen and Yin 2013), for deterministic problems: the
/// gradient must be exact and `step` needs a closure, as LBFGS does.
///
/// Each step goes along the retraction's curve τ ↦ R_X(−τξ) until f has fallen by ρτ‖ξ‖² below an average of
/// its past values (Zhang and Hager), starting from the Barzilai–Borwein τ, ⟨S, S⟩/|⟨S, Y⟩| and |⟨S, Y⟩|/⟨Y,
/// Y⟩ in turns, S and Y the last differences of X and ξ. `lr` is the first τ; Euclidean groups take part
/// along their straight lines. There is no momentum.
///
///     stiefel::CurvilinearSearch<> optimizer({x}, 1e-3);
///     for (int i = 0; i < 200; ++i) optimizer.step(closure);
template <class Retraction = WenYin>
class CurvilinearSearch : public RetractionSGD<Retraction> {
  using Base = RetractionSGD<Retraction>;

 public:
  using typename Base::Options;

  CurvilinearSearch(std::vector<torch::optim::OptimizerParamGroup> groups, Options defaults,
                    SearchOptions search = {})
      : Base(std::move(groups), std::move(defaults)), search_(search) {
    check();
  }
  CurvilinearSearch(std::vector<at::Tensor> parameters, Options defaults, SearchOptions search = {})
      : Base(std::move(parameters), std::move(defaults)), search_(search) {
    check();
  }

  at::Tensor step(torch::optim::Optimizer::LossClosure closure) override {
    TORCH_CHECK(closure, "stiefel: a curvilinear search evaluates the function; give step() a closure");
    this->prepare();  // also checks that the groups' options are ours to read
    check();
    return search_.step(this->param_groups(), closure, [this] { Base::step(); });
  }

  void save(torch::serialize::OutputArchive& archive) const override {
    Base::save(archive);
    search_.save(archive);
  }
  void load(torch::serialize::InputArchive& archive) override {
    auto search = search_;  // both or neither
    search.load(archive);
    Base::load(archive);
    search_ = search;
  }

 protected:
  std::string name() const override { return std::string("CurvilinearSearch ") + Retraction::kName; }

  void check_loaded(const GroupOptions& group) const override {
    const auto& options = static_cast<const Options&>(group);
    TORCH_CHECK(options.momentum() == 0, "stiefel: a curvilinear search has no momentum; got ",
                options.momentum());
    TORCH_CHECK(options.weight_decay() == 0, "stiefel: weight_decay is ", options.weight_decay(),
                " under a curvilinear search; add the decay to the function instead");
  }

 private:
  void check() {
    for (auto& group : this->param_groups()) check_loaded(static_cast<const Options&>(group.options()));
  }

  detail::Search search_;
};

}  // namespace stiefel
