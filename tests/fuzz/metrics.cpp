#include "record/metrics.h"

#include <stdexcept>

#include "errors.h"

// metrics.jsonl: refused by std::runtime_error, or epochs that increase and stay the same when they are
// written and read again.

namespace metrics_target {

FUZZ_TARGET(metrics) {
  using namespace stiefel::record;
  std::vector<std::string> warnings;
  std::vector<EpochMetrics> epochs;
  if (!fuzz::reads<std::runtime_error>(
          [&] { epochs = parse_metrics("metrics.jsonl", std::string(input), warnings); })) {
    return;
  }
  for (const auto& warning : warnings) fuzz::check_message(warning);
  for (size_t i = 1; i < epochs.size(); ++i) {
    fuzz::require(epochs[i - 1].epoch < epochs[i].epoch, "epochs that do not increase");
  }
  if (!epochs.empty()) best_epoch(epochs);
  const auto lines = metrics_lines(epochs);
  warnings.clear();
  fuzz::require(metrics_lines(parse_metrics("metrics.jsonl", lines, warnings)) == lines,
                "metrics change when they are written");
  fuzz::require(warnings.empty(), "what we write is warned of");
}

}  // namespace metrics_target
