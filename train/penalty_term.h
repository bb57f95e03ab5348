#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <stiefel/penalties.h>

#include <cstdint>
#include <vector>

#include "penalty_schedule.h"
#include "resolve_config.h"

namespace stiefel::train {

/// A soft constraint on weights, which is added to the loss of every step.
class PenaltyTerm {
 public:
  /// `config` has a penalty; `device` is where the loss is computed.
  PenaltyTerm(const Config& config, std::vector<at::Tensor> weights, const c10::Device& device);

  /// The host's part of a step: the weight of the epoch, and the seed of SRIP's power iteration.
  void prepare(int64_t epoch, int64_t step);

  /// The device's part: the penalty times its weight.
  at::Tensor value() const;

  /// SRIP's power iteration draws from it.
  const at::Generator& generator() const { return generator_; }

 private:
  Penalty kind_;
  int64_t rounds_;
  uint64_t seed_;
  std::vector<at::Tensor> weights_;
  PenaltySchedule schedule_;
  at::Generator generator_;
  at::Tensor weight_;  // of the epoch, on the device
  double weight_value_ = -1;
};

}  // namespace stiefel::train
