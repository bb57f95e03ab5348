#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "contenders.h"
#include "row.h"

namespace stiefel::bench {

/// How steps are timed.
struct StepPlan {
  int64_t rounds = 7;
  double min_seconds = 0.02;  ///< of a method in a round: short steps are taken several times and averaged
  bool interleaved = true;    ///< every round takes every method; otherwise one method after the other
  bool rates = false;         ///< also count each step's products and time a large product in every round
  bool sample_slow = false;   ///< slow methods on one weight per shape of a network, times their number
};

constexpr int64_t kStepsPerGraph = 16;

/// Times the step of each contender: two steps to warm up, then the plan's rounds, each of which takes the
/// methods in another random order, so that all see the same machine. A ratio is the median over rounds of
/// the ratio within a round. `progress` is called with what is measured next.
///
/// On a GPU the times are those of a CUDA graph that holds kStepsPerGraph steps, each by gradients of its
/// own, and `eager_ms` is the time of a single step; a method that cannot be captured has the latter in both
/// places, and lacks a graph.
///
/// A method that throws (an unsupported shape, no memory left) has a row without numbers that says why,
/// and the others are measured. Where none could be, the first error is thrown.
std::vector<Row> compare_steps(const std::vector<Contender>& contenders, const Subject& subject,
                               const at::Device& device, const StepPlan& plan,
                               const std::function<void(const std::string&)>& progress);

}  // namespace stiefel::bench
