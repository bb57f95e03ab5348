#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <string>
#include <vector>

#include "models/recurrence_choice.h"
#include "row.h"

namespace stiefel::bench {

/// One training iteration of the unitary network urnn-N.
struct RecurrencePlan {
  int64_t hidden = 116;  ///< N
  int64_t length = 784;  ///< time steps of a sequence: the pixels of an MNIST image
  int64_t batch = 128;
  int64_t rounds = 7;
  models::RecurrenceKernel kernel = models::RecurrenceKernel::kAuto;  ///< on a GPU
};

/// Times of the parts of an iteration, taken in turns.
struct RecurrenceTimes {
  Row forward;
  Row backward;
  Row both;
  Row product;             ///< a 1024×1024 complex product, the machine's own rate
  std::vector<Row> steps;  ///< of each optimiser on the unitary matrix
};

RecurrenceTimes time_recurrence(const RecurrencePlan& plan, const c10::Device& device,
                                const std::function<void(const std::string&)>& progress);

/// Times, rates, what part of the product's rate the passes reach, and what part of an iteration a step
/// takes.
std::string format_recurrence(const RecurrencePlan& plan, const RecurrenceTimes& times);

}  // namespace stiefel::bench
