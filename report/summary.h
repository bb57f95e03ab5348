#pragma once

#include <string>
#include <vector>

#include "report/run_folder.h"

namespace stiefel::report {

/// The figures of a run that are compared with the others'; kMissing where it has none.
struct Summary {
  double epochs = kMissing;
  double best_test_error = kMissing;  // the test error of the best epoch
  double best_epoch = kMissing;       // by validation_decides
  bool validation_decides = false;    // the best epoch has the lowest validation error, else test error
  double last_test_error = kMissing;
  double last_train_loss = kMissing;
  double epoch_seconds = kMissing;  // the median, which a slow first epoch does not move
  double total_seconds = kMissing;
  double images_per_second = kMissing;  // the median
  double defect_max = kMissing;         // over all epochs
  double skipped_steps = kMissing;
};

Summary summarize(const RunFolder& run);

/// Which runs are best (least) in a column. Runs on different data sets are not compared, nor are runs that
/// `eligible` leaves out, and where all are equal none is best.
std::vector<bool> mark_best(const std::vector<RunFolder>& runs, const std::vector<double>& values,
                            const std::vector<bool>& eligible);

/// A name for each run that no other run has: the folder follows where two names are the same.
std::vector<std::string> labels(const std::vector<RunFolder>& runs);

}  // namespace stiefel::report
