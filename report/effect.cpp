#include "report/effect.h"

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "record/method_facts.h"

namespace stiefel::report {

namespace {

using record::MethodFacts;
using record::MethodFamily;

/// The settings of a run, as far as they decide which others have an effect. What its config does not state
/// is
/// "".
struct Kind {
  explicit Kind(const RunFolder& run) : run_(run), method_(record::find_method_facts((*this)["optim"])) {}

  std::string operator[](const std::string& key) const {
    const auto found = std::find_if(run_.settings.begin(), run_.settings.end(),
                                    [&](const Pair& setting) { return setting.first == key; });
    return found == run_.settings.end() ? "" : found->second;
  }

  /// Whether the setting has one of these values, or is not stated.
  bool may_be(const std::string& key, const std::vector<std::string>& values) const {
    const auto value = (*this)[key];
    return value.empty() || std::find(values.begin(), values.end(), value) != values.end();
  }

  bool may_be_on_gpu() const { return run_.device.empty() || run_.device.rfind("cuda", 0) == 0; }

  /// Whether the optimiser has a property, or is not stated or unknown.
  template <class Property>
  bool optimizer_may(Property property) const {
    return method_ == nullptr || std::invoke(property, *method_);
  }

  /// Whether an optimiser of that name trains the parameters beside orthonormal ones.
  bool rest_may_be(const char* optimizer) const {
    return optimizer_may(&MethodFacts::has_matrix_rate) && may_be("rest", {optimizer});
  }

 private:
  const RunFolder& run_;
  const MethodFacts* method_;  // null where the optimiser is not stated or unknown
};

using Rule = std::function<bool(const Kind&)>;

bool is_image(const Kind& run) { return run.may_be("task", {"image"}); }
bool reads_data(const Kind& run) { return run.may_be("task", {"image", "pixel"}); }
bool drops(const Kind& run) { return run.may_be("schedule", {"multi-step"}); }
bool cayley(const Kind& run) {
  return run.optimizer_may([](const MethodFacts& method) { return method.family == MethodFamily::kCayley; });
}
bool by_root(const Kind& run) { return run.optimizer_may(&MethodFacts::uses_root); }
bool paper_form(const Kind& run) {
  return cayley(run) && run.optimizer_may([](const MethodFacts& method) { return !method.uses_root; });
}
bool matrix_rate(const Kind& run) { return run.optimizer_may(&MethodFacts::has_matrix_rate); }
bool retraction(const Kind& run) { return run.optimizer_may(&MethodFacts::is_retraction); }
bool penalised(const Kind& run) {
  return run.may_be("penalty", record::method_names(MethodFamily::kPenalty));
}
bool on_gpu(const Kind& run) { return run.may_be_on_gpu(); }

/// Settings that do something in some runs only. All others always do.
const std::map<std::string, Rule>& rules() {
  static const std::map<std::string, Rule> all = {
      {"data", reads_data},
      {"data-dir", reads_data},
      {"validation", reads_data},
      {"permuted", [](const Kind& run) { return run.may_be("task", {"pixel"}); }},
      {"length",
       [](const Kind& run) {
         return run.may_be("task", {"copying", "adding"});
       }},
      {"augment", is_image},
      {"channels-last", is_image},
      {"dropout", [](const Kind& run) { return run["model"].empty() || run["model"].rfind("wrn", 0) == 0; }},
      {"loss", is_image},
      {"temperature", is_image},
      {"margin-radius", is_image},
      {"rest", matrix_rate},
      {"momentum",
       [](const Kind& run) {
         return run.optimizer_may(&MethodFacts::uses_momentum) || run.rest_may_be("sgd");
       }},
      {"nesterov", [](const Kind& run) { return run.may_be("optim", {"sgd"}) || run.rest_may_be("sgd"); }},
      {"beta1",
       [](const Kind& run) {
         return run.optimizer_may(&MethodFacts::uses_betas) || run.rest_may_be("adam");
       }},
      {"beta2", [](const Kind& run) { return run.optimizer_may(&MethodFacts::uses_betas); }},
      {"drops", drops},
      {"drop-factor", drops},
      {"iterations", cayley},
      {"exact", cayley},
      {"norm", paper_form},
      {"polish", paper_form},
      {"q", paper_form},
      {"root-rounds", by_root},
      {"muon-nesterov", by_root},
      {"rms-scaled", retraction},
      {"penalty-weight", penalised},
      {"penalty-schedule", penalised},
      {"srip-rounds", [](const Kind& run) { return run.may_be("penalty", {"srip"}); }},
      {"group-size", [](const Kind& run) { return run.may_be("weights", {"omdsm"}); }},
      {"precision", on_gpu},
      {"graph", on_gpu},
      {"overlap-steps", [](const Kind& run) { return run.optimizer_may(&MethodFacts::is_constrained); }},
      {"step-precision",
       [](const Kind& run) {
         return run.may_be_on_gpu() && run.optimizer_may(&MethodFacts::has_mixed_step);
       }},
  };
  return all;
}

}  // namespace

bool has_effect(const std::string& key, const RunFolder& run) {
  const auto found = rules().find(key);
  return found == rules().end() || found->second(Kind(run));
}

}  // namespace stiefel::report
