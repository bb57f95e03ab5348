#include "contenders.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "dense_run.h"
#include "optimizer_run.h"
#include "parametrized_run.h"
#include "record/method_facts.h"
#include "soft_run.h"
#include "train/select_method.h"
#include "whitening_run.h"

namespace stiefel::bench {

namespace {

using Begin = decltype(Contender::begin);
using record::MethodFacts;
using record::MethodFamily;

Begin on_weights(std::unique_ptr<Run> (*begin)(const Workload&, const at::Device&)) {
  return [begin](const Subject& subject, const at::Device& device) { return begin(subject.weights, device); };
}

/// Cayley SGD with other options.
Begin cayley_sgd_with(void (*choose)(CayleySGDOptions&)) {
  return [choose](const Subject& subject, const at::Device& device) {
    return cayley_sgd_run(subject.weights, device, [&](CayleySGDOptions& options) {
      options.precision(subject.precision);
      choose(options);
    });
  };
}

Begin with_penalty(Penalty kind) {
  return [kind](const Subject& subject, const at::Device& device) {
    return soft_run(subject.weights, device, kind);
  };
}

Begin by_map(Parametrization kind) {
  return [kind](const Subject& subject, const at::Device& device) {
    return parametrized_run(subject.weights, device, kind);
  };
}

/// A retraction, as a function of the momentum.
template <class Retraction>
std::function<Begin(double)> by_retraction(Retraction policy = {}) {
  return [policy](double momentum) -> Begin {
    return [policy, momentum](const Subject& subject, const at::Device& device) {
      return retraction_run<Retraction>(subject.weights, device, momentum, policy);
    };
  };
}

std::map<std::string, Begin> steps_by_name() {
  return {
      {"sgd", on_weights(sgd_run)},
      {"adam", on_weights(adam_run)},
      {"cayley-sgd", cayley_sgd_with([](CayleySGDOptions&) {})},
      {"cayley-adam",
       [](const Subject& subject, const at::Device& device) {
         return cayley_adam_run(subject.weights, device, subject.precision);
       }},
      {"cayley-muon",
       [](const Subject& subject, const at::Device& device) {
         return cayley_muon_run(subject.weights, device, subject.precision);
       }},
      {"muon", Begin()},  // a step along directions, not on the manifold: it is compared in training alone
      {"so", with_penalty(Penalty::kSo)},
      {"dso", with_penalty(Penalty::kDso)},
      {"srip", with_penalty(Penalty::kSrip)},
      {"omdsm", by_map(Parametrization::kOmdsm)},
      {"matrix-exp", by_map(Parametrization::kMatrixExp)},
      {"cayley", by_map(Parametrization::kCayley)},
      {"householder", by_map(Parametrization::kHouseholder)},
      {"dbn", [](const Subject& subject,
                 const at::Device& device) { return whitening_run(*subject.network, device); }},
  };
}

std::map<std::string, std::function<Begin(double)>> retractions_by_name() {
  return {
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

bool is_one_of(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// What the table of methods says about a method.
Contender contender_of(const MethodFacts& facts, Begin begin) {
  Contender result;
  result.name = facts.name;
  result.title = facts.title;
  result.operations = facts.operations;
  result.lacks = facts.lacks;
  result.constrained = facts.keeps_orthonormal();
  result.needs_network = facts.family == MethodFamily::kNormalization;
  // The maps that PyTorch has take minutes on a network's weights.
  result.by_default = facts.family != MethodFamily::kParametrization || facts.name == "omdsm";
  result.slow = is_one_of(facts.name, {"polar", "cayley-closed"});
  result.countable = facts.family == MethodFamily::kCayley ||
                     is_one_of(facts.name, {"wen-yin", "cayley-closed", "cayley-exact", "pogo", "landing"});
  result.runs_in_bf16 =
      facts.family != MethodFamily::kParametrization && facts.family != MethodFamily::kNormalization;
  result.begin = std::move(begin);
  result.begin_training = [facts](const record::Config& base) {
    auto config = base;
    train::select_method(config, facts.name);
    if (config.has_penalty()) config.penalty_weight = 1e-3;
    if (!facts.has_mixed_step) config.step_precision = "auto";  // it is theirs alone
    return trainer_run(config);
  };
  return result;
}

/// A retraction with Cayley SGD's momentum, which is the fair comparison.
Contender with_momentum(Contender bare, const MethodFacts& facts, Begin begin) {
  bare.name += "+m";
  bare.title += " + momentum";
  if (!facts.operations_with_momentum.empty()) bare.operations = facts.operations_with_momentum;
  bare.lacks = facts.lacks;
  bare.begin = std::move(begin);
  bare.begin_training = [name = bare.name](const record::Config& base) {
    auto config = base;
    train::select_method(config, name);
    config.step_precision = "auto";
    return trainer_run(config);
  };
  return bare;
}

/// Cayley SGD with other options.
Contender cayley_variant(const char* suffix, const char* title, const char* operations,
                         void (*choose)(CayleySGDOptions&), void (*configure)(record::Config&)) {
  auto result = contender_of(*record::find_method_facts("cayley-sgd"), cayley_sgd_with(choose));
  result.name += suffix;
  result.title += title;
  result.operations = operations;
  result.by_default = false;
  result.begin_training = [configure](const record::Config& base) {
    auto config = base;
    train::select_method(config, "cayley-sgd");
    configure(config);
    return trainer_run(config);
  };
  return result;
}

Contender dense_contender() {
  Contender result;
  result.name = "dense";
  result.title = "Cayley SGD by the n×n matrix";
  result.operations = "8n²p + 4np²";
  result.lacks = "repair of drift";
  result.constrained = true;
  result.by_default = false;
  result.begin = on_weights(dense_run);
  return result;
}

Contender plain_loop_contender() {
  Contender result;
  result.name = "plain-loop";
  result.title = "LibTorch loop with torch::optim::SGD";
  result.operations = "–";
  result.lacks = "orthonormality";
  result.by_default = false;
  result.runs_in_bf16 = false;
  result.begin_training = plain_loop_run;
  return result;
}

std::vector<Contender> make_contenders() {
  std::vector<Contender> all;
  const auto steps = steps_by_name();
  const auto retractions = retractions_by_name();
  for (const auto& facts : record::method_facts()) {
    if (const auto step = steps.find(facts.name); step != steps.end()) {
      all.push_back(contender_of(facts, step->second));
    } else if (facts.is_retraction()) {
      const auto& retraction = retractions.at(facts.name);
      // Bare, as in the paper's table, and with momentum.
      auto bare = contender_of(facts, retraction(0));
      bare.lacks = facts.lacks.empty() ? "momentum" : "momentum, " + facts.lacks;
      all.push_back(bare);
      all.push_back(with_momentum(bare, facts, retraction(kMomentum)));
    }
  }
  all.push_back(cayley_variant(
      "-s5", ", s = 5", "12np² + 18p³", [](CayleySGDOptions& options) { options.iterations(5); },
      [](record::Config& config) { config.iterations = 5; }));
  all.push_back(cayley_variant(
      "-exact", ", exact", "12np² + 6p³", [](CayleySGDOptions& options) { options.exact(true); },
      [](record::Config& config) { config.exact = true; }));
  all.push_back(cayley_variant(
      "-no-polish", ", without corrections", "min(8n²p + 4np², 14np² + 26p³)",
      [](CayleySGDOptions& options) { options.polish(false); },
      [](record::Config& config) { config.polish = false; }));
  all.push_back(dense_contender());
  all.push_back(plain_loop_contender());
  return all;
}

using Part = bool (*)(const Contender&);

bool has_step(const Contender& contender) { return static_cast<bool>(contender.begin); }
bool has_training(const Contender& contender) { return static_cast<bool>(contender.begin_training); }

std::vector<Contender> choose_contenders(const std::vector<std::string>& names, Part has_part) {
  std::vector<Contender> chosen;
  std::vector<std::string> known;
  for (const auto& contender : contenders()) {
    if (!has_part(contender)) continue;
    known.push_back(contender.name);
    if (names.empty() && contender.by_default) chosen.push_back(contender);
  }
  for (const auto& name : names) {
    const auto found = std::find_if(contenders().begin(), contenders().end(),
                                    [&](const Contender& one) { return one.name == name && has_part(one); });
    if (found == contenders().end()) {
      throw std::invalid_argument(
          fmt::format("--methods holds '{}'; there are {}", name, fmt::join(known, ", ")));
    }
    chosen.push_back(*found);
  }
  return chosen;
}

}  // namespace

const std::vector<Contender>& contenders() {
  static const auto all = make_contenders();
  return all;
}

std::vector<Contender> step_contenders(const std::vector<std::string>& names) {
  return choose_contenders(names, has_step);
}

std::vector<Contender> training_contenders(const std::vector<std::string>& names) {
  return choose_contenders(names, has_training);
}

std::vector<Contender> standard_contenders(bool quick) {
  auto all = step_contenders({"cayley-sgd", "cayley-sgd-s5", "cayley-sgd-exact", "cayley-sgd-no-polish",
                              "cayley-adam", "cayley-muon", "dense", "qr", "polar", "cayley-closed", "sgd"});
  if (quick) {
    all.erase(std::remove_if(all.begin(), all.end(), [](const Contender& one) { return one.slow; }),
              all.end());
  }
  return all;
}

std::vector<Contender> with_baselines(std::vector<Contender> chosen) {
  for (const char* name : {"sgd", "cayley-sgd"}) {
    const bool there =
        std::any_of(chosen.begin(), chosen.end(), [&](const Contender& one) { return one.name == name; });
    if (!there) chosen.push_back(step_contenders({name})[0]);
  }
  return chosen;
}

}  // namespace stiefel::bench
