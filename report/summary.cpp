#include "report/summary.h"

#include <algorithm>
#include <cmath>

#include "base/statistics.h"

namespace stiefel::report {

namespace {

std::vector<double> present(const RunFolder& run, Metric value) {
  std::vector<double> values;
  for (const auto& epoch : run.epochs) {
    if (std::isfinite(value(epoch))) values.push_back(value(epoch));
  }
  return values;
}

double median_or_missing(const std::vector<double>& values) {
  return values.empty() ? kMissing : base::median(values);
}

double greatest(const std::vector<double>& values) {
  return values.empty() ? kMissing : *std::max_element(values.begin(), values.end());
}

}  // namespace

Summary summarize(const RunFolder& run) {
  Summary summary;
  if (run.epochs.empty()) return summary;
  const Epoch& last = run.epochs.back();
  summary.epochs = static_cast<double>(last.epoch);
  summary.validation_decides = !present(run, metric<&Epoch::validation_error>).empty();
  if (const auto& best = record::best_epoch(run.epochs); std::isfinite(best.deciding_error())) {
    summary.best_test_error = best.test_error;
    summary.best_epoch = static_cast<double>(best.epoch);
  }
  // The last epoch's own, even where it is missing: an earlier value would hide that the run diverged.
  summary.last_test_error = last.test_error;
  summary.last_train_loss = last.train_loss;
  summary.epoch_seconds = median_or_missing(present(run, metric<&Epoch::epoch_seconds>));
  if (std::isnan(summary.epoch_seconds) && last.epoch > 0)
    summary.epoch_seconds = last.seconds / summary.epochs;
  summary.total_seconds = std::isnan(run.seconds) ? last.seconds : run.seconds;
  summary.images_per_second = median_or_missing(present(run, metric<&Epoch::images_per_second>));
  summary.defect_max = greatest(present(run, metric<&Epoch::defect_max>));
  summary.skipped_steps = greatest(present(run, metric<&Epoch::skipped_steps>));
  return summary;
}

std::vector<bool> mark_best(const std::vector<RunFolder>& runs, const std::vector<double>& values,
                            const std::vector<bool>& eligible) {
  std::vector<bool> best(runs.size());
  for (size_t i = 0; i < runs.size(); ++i) {
    bool least = eligible[i] && std::isfinite(values[i]);
    bool beats_another = false;
    for (size_t j = 0; j < runs.size() && least; ++j) {
      if (j == i || !eligible[j] || runs[j].data != runs[i].data || std::isnan(values[j])) continue;
      least = values[i] <= values[j];
      beats_another = beats_another || values[i] < values[j];
    }
    best[i] = least && beats_another;
  }
  return best;
}

std::vector<std::string> labels(const std::vector<RunFolder>& runs) {
  std::vector<std::string> result;
  for (const auto& run : runs) {
    const auto same =
        std::count_if(runs.begin(), runs.end(), [&](const auto& r) { return r.name == run.name; });
    result.push_back(same > 1 ? run.name + " (" + run.folder.string() + ")" : run.name);
  }
  return result;
}

}  // namespace stiefel::report
