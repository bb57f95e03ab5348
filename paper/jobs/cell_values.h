#pragma once

#include "run_record.h"

/// What cells take from a finished run. Not a number (NaN) where the run does not have it.
namespace stiefel::paper {

/// The test error after the last epoch, in per cent.
double last_test_error(const RunRecord& run);

/// The training loss of the last epoch.
double last_train_loss(const RunRecord& run);

/// The median over the epochs, which a slow first one does not move. Training only, without the evaluation.
double epoch_seconds(const RunRecord& run);

/// Of one step.
double iteration_seconds(const RunRecord& run);

/// The test accuracy after the epoch with the least validation error, in per cent: early stopping.
double accuracy_by_validation(const RunRecord& run);

/// The mean ‖KᴴK − I‖_F over the iterations of a measurement.
double mean_defect(const RunRecord& run);

}  // namespace stiefel::paper
