#include "methods.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stiefel/optim/cayley_adam.h>
#include <stiefel/optim/cayley_sgd.h>
#include <stiefel/optim/retraction_sgd.h>

#include <stdexcept>

#include "device_adam.h"
#include "device_rmsprop.h"
#include "device_sgd.h"
#include "rms_scaling.h"

namespace stiefel::train {

namespace {

using torch::optim::Optimizer;
using torch::optim::OptimizerOptions;
using torch::optim::OptimizerParamGroup;
using Groups = std::vector<OptimizerParamGroup>;

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
  return std::make_unique<DeviceSgd>(euclidean_groups(parameters, config, decaying, plain), plain);
}

/// ADAM, or AdamW, which decays by 0.01 where it is not told otherwise.
template <class Adam, class Options>
std::unique_ptr<Optimizer> adam_of(const std::vector<at::Tensor>& parameters, const Config& config) {
  const auto plain = Options(*config.lr).betas({config.beta1, config.beta2_of_adam()}).weight_decay(0);
  const auto decaying = Options(plain).weight_decay(*config.weight_decay);
  return std::make_unique<Adam>(euclidean_groups(parameters, config, decaying, plain), plain);
}
constexpr auto adam = adam_of<DeviceAdam, torch::optim::AdamOptions>;
constexpr auto adamw = adam_of<DeviceAdamW, torch::optim::AdamWOptions>;

std::unique_ptr<Optimizer> rmsprop(const std::vector<at::Tensor>& parameters, const Config& config) {
  const auto plain = torch::optim::RMSpropOptions(*config.lr).alpha(0.9);
  const auto decaying = torch::optim::RMSpropOptions(plain).weight_decay(*config.weight_decay);
  return std::make_unique<DeviceRmsprop>(euclidean_groups(parameters, config, decaying, plain), plain);
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
Optimisers alone(const ParameterSplit& split, const Config& config) {
  Optimisers result;
  result.push_back(make(all_of(split), config));
  return result;
}

Optimisers make_cayley_sgd(const ParameterSplit& split, const Config& config) {
  Optimisers result;
  const auto options = on_manifold<CayleySGDOptions>(config).momentum(*config.momentum);
  result.push_back(std::make_unique<CayleySGD>(split.manifold, options));
  result.push_back(rest(split.euclidean, config));
  return result;
}

Optimisers make_cayley_adam(const ParameterSplit& split, const Config& config) {
  Optimisers result;
  const auto options = on_manifold<CayleyAdamOptions>(config).betas({config.beta1, *config.beta2});
  result.push_back(std::make_unique<CayleyAdam>(split.manifold, options));
  result.push_back(rest(split.euclidean, config));
  return result;
}

/// Descent by a retraction, bare as in the paper's comparison unless a momentum is given.
template <class Retraction>
Method retraction(std::string name, Retraction policy = {}) {
  return {std::move(name),
          0.01,
          0.2,
          0.999,
          1e-3,
          1e-5,
          1e-3,
          true,
          true,
          [policy](const ParameterSplit& split, const Config& config) {
            const auto options = RetractionSGDOptions<Retraction>(*config.lr_manifold)
                                     .momentum(config.momentum.value_or(0))
                                     .retraction(policy);
            Optimisers result;
            if (config.rms_scaled) result.push_back(std::make_unique<RmsScaling>(split.manifold));
            result.push_back(std::make_unique<RetractionSGD<Retraction>>(split.manifold, options));
            result.push_back(rest(split.euclidean, config));
            return result;
          }};
}

}  // namespace

const std::vector<Method>& methods() {
  static const std::vector<Method> all{
      // name, rate, rate on the manifold, β₂, the three rates for sequences, constrained, a retraction, maker
      {"sgd", 0.1, 0, 0.999, 0.1, 0, 0, false, false, alone<sgd>},
      {"adam", 0.001, 0, 0.999, 0.001, 0, 0, false, false, alone<adam>},
      {"adamw", 0.001, 0, 0.999, 0.001, 0, 0, false, false, alone<adamw>},
      {"cayley-sgd", 0.01, 0.2, 0.99, 0.001, 1e-5, 1e-3, true, false, make_cayley_sgd},
      {"cayley-adam", 0.01, 0.4, 0.99, 0.001, 0.01, 0.01, true, false, make_cayley_adam},
      retraction<Polar>("polar"),
      retraction<Polar>("polar-ns", {Polar::By::kNewtonSchulz}),
      retraction<Qr>("qr"),
      retraction<Qr>("cholesky-qr", {Qr::By::kCholesky}),
      retraction<WenYin>("wen-yin"),
      retraction<CayleyClosed>("cayley-closed"),
      retraction<CayleyExact>("cayley-exact"),
  };
  return all;
}

const Method& find_method(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& method : methods()) {
    if (method.name == name) return method;
    names.push_back(method.name);
  }
  throw std::invalid_argument(
      fmt::format("--optim is '{}'; it must be one of {}", name, fmt::join(names, ", ")));
}

int64_t skipped_steps(const Optimisers& optimisers) {
  int64_t total = 0;
  for (const auto& optimizer : optimisers) {
    if (const auto* ours = dynamic_cast<const ManifoldOptimizer*>(optimizer.get()))
      total += ours->skipped_steps();
  }
  return total;
}

}  // namespace stiefel::train
