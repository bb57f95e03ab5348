#include "penalty_term.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <utility>

#include "data/seeds.h"

namespace stiefel::train {

namespace {

/// A generator of its own. A CPU's is made and not cloned: LibTorch 1.13 never frees a clone.
at::Generator new_generator(const c10::Device& device) {
  if (device.is_cpu()) return at::make_generator<at::CPUGeneratorImpl>();
  return at::globalContext().defaultGenerator(device).clone();
}

}  // namespace

PenaltyTerm::PenaltyTerm(const Config& config, std::vector<at::Tensor> weights, const c10::Device& device)
    : kind_(penalty_from_string(config.penalty)),
      rounds_(config.srip_rounds),
      seed_(static_cast<uint64_t>(config.seed)),
      weights_(std::move(weights)),
      schedule_(*config.penalty_weight, config.penalty_schedule),
      generator_(new_generator(device)),
      weight_(at::zeros({}, at::TensorOptions(at::kFloat).device(device))) {}

void PenaltyTerm::prepare(int64_t epoch, int64_t step) {
  const double weight = schedule_.at(epoch);
  if (weight != weight_value_) weight_.fill_(weight);
  weight_value_ = weight;
  if (kind_ == Penalty::kSrip) {
    generator_.set_current_seed(data::mix(seed_, epoch, step, data::Purpose::kPenalty));
  }
}

at::Tensor PenaltyTerm::value() const {
  // A recorded step cannot leave it out: there it is multiplied by 0.
  if (weight_value_ == 0 && !weight_.is_cuda()) return at::zeros_like(weight_);
  PenaltyOptions options;
  options.rounds = rounds_;
  options.generator = generator_;
  return stiefel::penalty(kind_, weights_, options) * weight_;
}

}  // namespace stiefel::train
