#include "methods.h"

#include <stiefel/optim/cayley_adam.h>
#include <stiefel/optim/cayley_muon.h>
#include <stiefel/optim/cayley_sgd.h>
#include <stiefel/optim/euclidean.h>
#include <stiefel/optim/retraction_sgd.h>

#include <algorithm>
#include <map>

#include "muon.h"
#include "rms_scaling.h"

namespace stiefel::train {

namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;
using Groups = std::vector<OptimizerParamGroup>;
using Maker = std::function<Optimizers(const ParameterSplit&, const Config&)>;

/// Euclidean parameters in two groups: matrices, which decay, and biases and normalisation, which do where it
/// is asked for. Groups without parameters are left out.
Groups euclidean_groups(const std::vector<at::Tensor>& parameters, const Config& config,
                        const OptimizerOptions& decaying, const OptimizerOptions& plain) {
  Groups groups;
  std::vector<at::Tensor> matrices;
  std::vector<at::Tensor> vectors;
  for (const auto& parameter : parameters) (parameter.dim() >= 2 ? matrices : vectors).push_back(parameter);
  if (!matrices.empty()) groups.emplace_back(matrices, decaying.clone());
  if (!vectors.empty()) groups.emplace_back(vectors, (config.decay_all ? decaying : plain).clone());
  return groups;
}

std::vector<at::Tensor> all_of(const ParameterSplit& split) {
  auto all = split.manifold;
  all.insert(all.end(), split.euclidean.begin(), split.euclidean.end());
  return all;
}

/// SGD with Nesterov momentum.
std::unique_ptr<Optimizer> sgd(const std::vector<at::Tensor>& parameters, const Config& config) {
  const double momentum = config.momentum.value_or(0.9);
  const auto plain =
      torch::optim::SGDOptions(*config.lr).momentum(momentum).nesterov(config.nesterov && momentum > 0);
  const auto decaying = torch::optim::SGDOptions(plain).weight_decay(*config.weight_decay);
  return std::make_unique<SGD>(euclidean_groups(parameters, config, decaying, plain), plain);
}

/// ADAM, or AdamW, which decays by 0.01 where it is not told otherwise.
template <class Adam, class Options>
std::unique_ptr<Optimizer> adam_of(const std::vector<at::Tensor>& parameters, const Config& config) {
  const auto plain = Options(*config.lr).betas({config.beta1, config.beta2_of_adam()}).weight_decay(0);
  const auto decaying = Options(plain).weight_decay(*config.weight_decay);
  return std::make_unique<Adam>(euclidean_groups(parameters, config, decaying, plain), plain);
}
constexpr auto adam = adam_of<Adam, torch::optim::AdamOptions>;
constexpr auto adamw = adam_of<AdamW, torch::optim::AdamWOptions>;

std::unique_ptr<Optimizer> rmsprop(const std::vector<at::Tensor>& parameters, const Config& config) {
  const auto plain = torch::optim::RMSpropOptions(*config.lr).alpha(0.9);
  const auto decaying = torch::optim::RMSpropOptions(plain).weight_decay(*config.weight_decay);
  return std::make_unique<RMSprop>(euclidean_groups(parameters, config, decaying, plain), plain);
}

/// What trains the Euclidean parameters beside orthonormal ones.
std::unique_ptr<Optimizer> rest(const std::vector<at::Tensor>& parameters, const Config& config) {
  if (config.rest == "adam") return adam(parameters, config);
  if (config.rest == "rmsprop") return rmsprop(parameters, config);
  return sgd(parameters, config);
}

/// What the two Cayley optimisers are told in common.
template <class Options>
Options on_manifold(const Config& config) {
  return Options(*config.lr_manifold)
      .iterations(config.iterations)
      .exact(config.exact)
      .norm(norm_from_string(config.norm))
      .polish(config.polish)
      .precision(precision_from_string(config.step_precision))
      .q(config.q);
}

/// One optimiser for all parameters.
template <std::unique_ptr<Optimizer> (*make)(const std::vector<at::Tensor>&, const Config&)>
Optimizers alone(const ParameterSplit& split, const Config& config) {
  Optimizers result;
  result.push_back(make(all_of(split), config));
  return result;
}

Optimizers make_cayley_sgd(const ParameterSplit& split, const Config& config) {
  Optimizers result;
  const auto options = on_manifold<CayleySGDOptions>(config).momentum(*config.momentum);
  result.push_back(std::make_unique<CayleySGD>(split.manifold, options));
  result.push_back(rest(split.euclidean, config));
  return result;
}

Optimizers make_cayley_adam(const ParameterSplit& split, const Config& config) {
  Optimizers result;
  const auto options = on_manifold<CayleyAdamOptions>(config).betas({config.beta1, *config.beta2});
  result.push_back(std::make_unique<CayleyAdam>(split.manifold, options));
  result.push_back(rest(split.euclidean, config));
  return result;
}

Optimizers make_cayley_muon(const ParameterSplit& split, const Config& config) {
  Optimizers result;
  const auto options = CayleyMuonOptions(*config.lr_manifold)
                           .momentum(*config.momentum)
                           .nesterov(config.muon_nesterov)
                           .rounds(config.root_rounds)
                           .iterations(config.iterations)
                           .exact(config.exact)
                           .precision(precision_from_string(config.step_precision));
  result.push_back(std::make_unique<CayleyMuon>(split.manifold, options));
  result.push_back(rest(split.euclidean, config));
  return result;
}

/// Muon for the matrices that Cayley Muon would keep orthonormal.
Optimizers make_muon(const ParameterSplit& split, const Config& config) {
  Optimizers result;
  const auto options = torch::optim::SGDOptions(*config.lr_manifold)
                           .momentum(*config.momentum)
                           .nesterov(config.muon_nesterov)
                           .weight_decay(*config.weight_decay);
  result.push_back(std::make_unique<Muon>(Groups{OptimizerParamGroup(split.manifold)}, options,
                                          PolarOptions{config.root_rounds}));
  result.push_back(rest(split.euclidean, config));
  return result;
}

/// Descent by a retraction, bare as in the paper's comparison unless a momentum is given.
template <class Retraction>
Maker by_retraction(Retraction policy = {}) {
  return [policy](const ParameterSplit& split, const Config& config) {
    const auto options = RetractionSGDOptions<Retraction>(*config.lr_manifold)
                             .momentum(config.momentum.value_or(0))
                             .retraction(policy);
    Optimizers result;
    if (config.rms_scaled) result.push_back(std::make_unique<RmsScaling>(split.manifold));
    result.push_back(std::make_unique<RetractionSGD<Retraction>>(split.manifold, options));
    result.push_back(rest(split.euclidean, config));
    return result;
  };
}

std::map<std::string, Maker> makers() {
  return {
      {"sgd", alone<sgd>},
      {"adam", alone<adam>},
      {"adamw", alone<adamw>},
      {"muon", make_muon},
      {"cayley-sgd", make_cayley_sgd},
      {"cayley-adam", make_cayley_adam},
      {"cayley-muon", make_cayley_muon},
      {"polar", by_retraction<Polar>()},
      {"polar-ns", by_retraction<Polar>({Polar::By::kNewtonSchulz})},
      {"qr", by_retraction<Qr>()},
      {"cholesky-qr", by_retraction<Qr>({Qr::By::kCholesky})},
      {"wen-yin", by_retraction<WenYin>()},
      {"cayley-closed", by_retraction<CayleyClosed>()},
      {"cayley-exact", by_retraction<CayleyExact>()},
      {"pogo", by_retraction<Pogo>()},
      {"landing", by_retraction<Landing>()},
  };
}

}  // namespace

const std::vector<Method>& methods() {
  static const std::vector<Method> all = [] {
    std::vector<Method> result;
    const auto known = makers();
    for (const auto& facts : record::method_facts()) {
      if (facts.is_optimizer()) result.push_back({facts, known.at(facts.name)});
    }
    return result;
  }();
  return all;
}

const Method& find_method(const std::string& name) {
  const auto& facts = record::optimizer_facts(name);
  return *std::find_if(methods().begin(), methods().end(),
                       [&](const Method& method) { return &method.facts == &facts; });
}

int64_t skipped_steps(const Optimizers& optimizers) {
  int64_t total = 0;
  for (const auto& optimizer : optimizers) {
    if (const auto* ours = dynamic_cast<const ManifoldOptimizer*>(optimizer.get()))
      total += ours->skipped_steps();
  }
  return total;
}

}  // namespace stiefel::train
