#include "report/effect.h"

#include <algorithm>
#include <functional>
#include <initializer_list>
#include <map>

namespace stiefel::report {

namespace {

/// What a run was, as far as it decides which settings count. What its config does not say is "".
struct Kind {
  explicit Kind(const RunFolder& run) : run_(run) {}

  std::string operator[](const std::string& key) const {
    const auto found = std::find_if(run_.settings.begin(), run_.settings.end(),
                                    [&](const Pair& setting) { return setting.first == key; });
    return found == run_.settings.end() ? "" : found->second;
  }

  /// Whether the setting has one of these values, or is not stated.
  bool may_be(const std::string& key, std::initializer_list<const char*> values) const {
    const auto value = (*this)[key];
    return value.empty() || std::find(values.begin(), values.end(), value) != values.end();
  }

  bool may_be_on_gpu() const { return run_.device.empty() || run_.device.rfind("cuda", 0) == 0; }
  bool may_be_cayley() const { return may_be("optim", {"cayley-sgd", "cayley-adam"}); }
  bool may_be_euclidean() const { return may_be("optim", {"sgd", "adam", "adamw"}); }
  bool is_euclidean() const { return !(*this)["optim"].empty() && may_be_euclidean(); }
  bool is_cayley() const { return !(*this)["optim"].empty() && may_be_cayley(); }

  /// Whether an optimiser of that name trains all parameters, or those beside the orthonormal ones.
  bool may_use(const char* optimiser) const {
    return may_be("optim", {optimiser}) || (!is_euclidean() && may_be("rest", {optimiser}));
  }

 private:
  const RunFolder& run_;
};

using Rule = std::function<bool(const Kind&)>;

bool is_image(const Kind& run) { return run.may_be("task", {"image"}); }
bool reads_data(const Kind& run) { return run.may_be("task", {"image", "pixel"}); }
bool drops(const Kind& run) { return run.may_be("schedule", {"multi-step"}); }
bool cayley(const Kind& run) { return run.may_be_cayley(); }
bool constrained(const Kind& run) { return !run.is_euclidean(); }
bool retraction(const Kind& run) { return !run.is_euclidean() && !run.is_cayley(); }
bool penalised(const Kind& run) { return run.may_be("penalty", {"so", "dso", "srip"}); }
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
      {"rest", constrained},
      {"momentum",
       [](const Kind& run) {
         return run.may_use("sgd") || run.may_be("optim", {"cayley-sgd"}) || retraction(run);
       }},
      {"nesterov", [](const Kind& run) { return run.may_use("sgd"); }},
      {"beta1",
       [](const Kind& run) {
         return run.may_use("adam") || run.may_be("optim", {"adamw", "cayley-adam"});
       }},
      {"beta2",
       [](const Kind& run) {
         return run.may_be("optim", {"adam", "adamw", "cayley-adam"});
       }},
      {"drops", drops},
      {"drop-factor", drops},
      {"iterations", cayley},
      {"exact", cayley},
      {"norm", cayley},
      {"polish", cayley},
      {"q", cayley},
      {"rms-scaled", retraction},
      {"penalty-weight", penalised},
      {"penalty-schedule", penalised},
      {"srip-rounds", [](const Kind& run) { return run.may_be("penalty", {"srip"}); }},
      {"group-size", [](const Kind& run) { return run.may_be("weights", {"omdsm"}); }},
      {"precision", on_gpu},
      {"graph", on_gpu},
      {"step-precision", [](const Kind& run) { return run.may_be_on_gpu() && run.may_be_cayley(); }},
  };
  return all;
}

}  // namespace

bool has_effect(const std::string& key, const RunFolder& run) {
  const auto found = rules().find(key);
  return found == rules().end() || found->second(Kind(run));
}

}  // namespace stiefel::report
