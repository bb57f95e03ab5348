#include "contenders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stiefel/optim/euclidean.h>

#include <stdexcept>

#include "optimizer_run.h"
#include "parametrised_run.h"
#include "soft_run.h"
#include "start.h"
#include "whitening_run.h"

namespace stiefel::bench {

namespace {

using runs::Config;

const char* const kNoMomentum = "momentum";
const char* const kNoRepair = "repair of drift";

/// torch's SGD and ADAM, on a GPU by their fastest kernels.
std::unique_ptr<Run> fused_sgd_run(const Workload& workload, const at::Device& device) {
  const auto options = [](const Layer&, const Start& start) {
    return torch::optim::SGDOptions(start.rate(kGrowth)).momentum(kMomentum);
  };
  return std::make_unique<OptimizerRun<SGD>>(workload, device, options,
                                             [](torch::optim::OptimizerParamState&) {});
}

std::unique_ptr<Run> fused_adam_run(const Workload& workload, const at::Device& device) {
  const auto options = [](const Layer&, const Start&) { return torch::optim::AdamOptions(1e-3); };
  return std::make_unique<OptimizerRun<Adam>>(workload, device, options,
                                              [](torch::optim::OptimizerParamState&) {});
}

Contender plain(const char* name, decltype(&sgd_run) begin) {
  return {
      name,
      "–",
      "orthonormality",
      false,
      false,
      true,
      [begin](const Subject& subject, const at::Device& device) { return begin(subject.weights, device); },
      [name](Config& config) { config.optim = name; }};
}

Contender soft(const char* name, Penalty kind, const char* operations) {
  return {name,
          operations,
          "orthonormality",
          false,
          false,
          true,
          [kind](const Subject& subject, const at::Device& device) {
            return soft_run(subject.weights, device, kind);
          },
          [name](Config& config) {
            config.optim = "sgd";
            config.penalty = name;
            config.penalty_weight = 1e-3;
          }};
}

/// The operations of a retraction's step without momentum and with it, where that makes more.
struct StepWork {
  StepWork(const char* both) : bare(both), moving(both) {}
  StepWork(const char* without, const char* with) : bare(without), moving(with) {}
  const char* bare;
  const char* moving;
};

/// Bare, as in the paper's table, and with Cayley SGD's momentum, which is the fair comparison.
template <class Retraction>
void add_retraction(std::vector<Contender>& all, const std::string& name, const StepWork& operations,
                    const std::string& lacks, Retraction policy = {}) {
  const auto begin = [policy](double momentum) {
    return [policy, momentum](const Subject& subject, const at::Device& device) {
      return retraction_run<Retraction>(subject.weights, device, momentum, policy);
    };
  };
  const auto joined = lacks.empty() ? kNoMomentum : std::string(kNoMomentum) + ", " + lacks;
  all.push_back({name, operations.bare, joined, true, false, true, begin(0),
                 [name](Config& config) { config.optim = name; }});
  all.push_back(
      {name + "+m", operations.moving, lacks, true, false, true, begin(kMomentum), [name](Config& config) {
         config.optim = name;
         config.momentum = kMomentum;
       }});
}

Contender parametrised(const char* name, Parametrisation kind, const char* operations, bool by_default) {
  return {name,
          operations,
          "",
          true,
          false,
          by_default,
          [kind](const Subject& subject, const at::Device& device) {
            return parametrised_run(subject.weights, device, kind);
          },
          [kind](Config& config) {
            config.optim = "sgd";
            config.weights = to_string(kind);
          }};
}

std::vector<Contender> make_contenders() {
  std::vector<Contender> all;
  all.push_back(plain("sgd", fused_sgd_run));
  all.push_back(plain("adam", fused_adam_run));
  all.push_back({"cayley-sgd", "12np² + 6p³", "", true, false, true,
                 [](const Subject& subject, const at::Device& device) -> std::unique_ptr<Run> {
                   return cayley_sgd_run(subject.weights, device, [&](CayleySGDOptions& options) {
                     options.precision(subject.precision);
                   });
                 },
                 [](Config& config) { config.optim = "cayley-sgd"; }});
  all.push_back({"cayley-adam", "12np² + 6p³", "", true, false, true,
                 [](const Subject& subject, const at::Device& device) -> std::unique_ptr<Run> {
                   return cayley_adam_run(subject.weights, device, subject.precision);
                 },
                 [](Config& config) { config.optim = "cayley-adam"; }});
  all.push_back(soft("so", Penalty::kSo, "4np²"));
  all.push_back(soft("dso", Penalty::kDso, "4np²"));
  all.push_back(soft("srip", Penalty::kSrip, "22np"));
  all.push_back(parametrised("omdsm", Parametrisation::kOmdsm, "10np² + p×p eigenproblem", true));
  all.push_back({"dbn", "on activations", "orthonormality", false, true, true,
                 [](const Subject& subject, const at::Device& device) {
                   return whitening_run(*subject.network, device);
                 },
                 [](Config& config) {
                   config.optim = "sgd";
                   config.normalisation = "dbn";
                 }});
  add_retraction<Polar>(all, "polar", "6np² + n×p SVD", "speed on a GPU");
  add_retraction<Polar>(all, "polar-ns", "8np² + 6kp³", "", {Polar::By::kNewtonSchulz});
  add_retraction<Qr>(all, "qr", "8np²", "speed on a GPU");
  add_retraction<Qr>(all, "cholesky-qr", "7np² + ⅓p³", "", {Qr::By::kCholesky});
  add_retraction<WenYin>(all, "wen-yin", {"10np² + 19p³", "12np² + 21p³"}, kNoRepair);
  add_retraction<CayleyClosed>(all, "cayley-closed", {"⅔n³ + 6n²p + 4np²", "⅔n³ + 6n²p + 6np²"}, kNoRepair);
  add_retraction<CayleyExact>(all, "cayley-exact", "12np² + 6p³", "");
  all.push_back(parametrised("matrix-exp", Parametrisation::kMatrixExp, "n×n exponential, twice", false));
  all.push_back(parametrised("cayley", Parametrisation::kCayley, "n×n solve, twice", false));
  all.push_back(parametrised("householder", Parametrisation::kHouseholder, "4np², then backward", false));
  return all;
}

}  // namespace

const std::vector<Contender>& contenders() {
  static const auto all = make_contenders();
  return all;
}

std::vector<Contender> choose_contenders(const std::vector<std::string>& names) {
  std::vector<Contender> chosen;
  if (names.empty()) {
    for (const auto& contender : contenders()) {
      if (contender.by_default) chosen.push_back(contender);
    }
    return chosen;
  }
  for (const auto& name : names) {
    const auto size = chosen.size();
    for (const auto& contender : contenders()) {
      if (contender.name == name) chosen.push_back(contender);
    }
    if (chosen.size() == size) {
      std::vector<std::string> known;
      for (const auto& contender : contenders()) known.push_back(contender.name);
      throw std::invalid_argument(
          fmt::format("--methods holds '{}'; there are {}", name, fmt::join(known, ", ")));
    }
  }
  return chosen;
}

}  // namespace stiefel::bench
