#include "cell_values.h"

#include <algorithm>
#include <limits>

#include "base/statistics.h"

namespace stiefel::paper {

namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double last_test_error(const RunRecord& run) {
  return run.epochs.empty() ? kNone : run.epochs.back().test_error;
}

double last_train_loss(const RunRecord& run) {
  return run.epochs.empty() ? kNone : run.epochs.back().train_loss;
}

double epoch_seconds(const RunRecord& run) {
  std::vector<double> seconds;
  for (const auto& epoch : run.epochs) seconds.push_back(epoch.epoch_seconds);
  return seconds.empty() ? kNone : base::median(std::move(seconds));
}

double iteration_seconds(const RunRecord& run) {
  if (run.epochs.empty()) return kNone;
  const double steps =
      static_cast<double>(run.epochs.back().step) / static_cast<double>(run.epochs.back().epoch);
  return epoch_seconds(run) / steps;
}

double accuracy_by_validation(const RunRecord& run) {
  return run.epochs.empty() ? kNone : 100 - run.best_epoch().test_error;
}

double mean_defect(const RunRecord& run) {
  const auto found = run.facts.find("unitariness");
  if (found == run.facts.end() || !found->contains("mean")) return kNone;
  const auto& value = (*found)["mean"];
  return value.is_number() ? value.get<double>() : kNone;  // null where the iteration diverged
}

}  // namespace stiefel::paper
