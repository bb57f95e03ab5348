#pragma once

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "contenders.h"

/// Times methods side by side and prints the result.
namespace stiefel::bench {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// What one method showed.
struct Row {
  std::string method;
  double median_ms = kUnknown;
  double spread_ms = kUnknown;  ///< the interquartile range
  double eager_ms = kUnknown;   ///< on a GPU, where the other times are a graph's: launched kernel by kernel
  double ratio_to_sgd = kUnknown;
  double ratio_to_cayley_sgd = kUnknown;
  double defect = kUnknown;  ///< the largest ‖XᵀX − I‖_F after the timed steps; NaN without a constraint
  std::string operations;
  std::string lacks;
  int64_t steps_per_epoch = 0;  ///< of whole training steps; 0 for the step alone
  std::string failure;          ///< why it could not be measured; empty where it was
};

/// Median and interquartile range, from seconds to milliseconds.
void summarise(std::vector<double> seconds, Row& row);

/// Fills the ratios from the rows called sgd and cayley-sgd.
void fill_ratios(std::vector<Row>& rows);

constexpr int64_t kStepsPerGraph = 16;

/// Times the step of each contender: two to warm up, then `repetitions` in turns, so that all see the same
/// machine; a step under 20 ms is taken several times a turn. `progress` hears what is being done.
///
/// On a GPU the times are those of a CUDA graph that holds kStepsPerGraph steps, each by gradients of its
/// own, and `eager_ms` is a step's alone; a method that cannot be captured has the latter in both places and
/// says so.
///
/// A method that throws (a shape that it cannot do, no memory left) has a row without numbers that says why,
/// and the others are measured. Where none could be, the first error is thrown.
std::vector<Row> compare_steps(const std::vector<Contender>& contenders, const Subject& subject,
                               const at::Device& device, int64_t repetitions,
                               const std::function<void(const std::string&)>& progress);

/// The same for whole training steps, `steps` of them after those to warm up, one contender after the other.
/// On a GPU they are replays of the trainer's graph, where it has one. What fails is a row too.
std::vector<Row> compare_epochs(const std::vector<Contender>& contenders, const runs::Config& base,
                                int64_t steps, const std::function<void(const std::string&)>& progress);

/// The rows without what was only measured for the ratios' sake.
std::vector<Row> only(const std::vector<Row>& rows, const std::vector<std::string>& names);

/// The contenders with sgd and cayley-sgd added where they are missing: every ratio needs its baseline.
std::vector<Contender> with_baselines(std::vector<Contender> contenders);

}  // namespace stiefel::bench
