#pragma once

#include <cstdint>

namespace stiefel::record {

/// When the end of an epoch is checkpointed: every so many epochs, or as often as writing takes a twentieth
/// of the time at most. Times are seconds on any one clock.
class CheckpointInterval {
 public:
  /// `every`: epochs between checkpoints; 0: by the time they take.
  CheckpointInterval(int64_t every, double now) : every_(every), last_(now) {}

  bool is_due(int64_t epoch, double now) const {
    return every_ > 0 ? epoch % every_ == 0 : now - last_ >= kTimesTheCost * cost_;
  }

  /// Records when a checkpoint was begun and ended.
  void record(double begun, double ended) {
    cost_ = ended - begun;
    last_ = ended;
  }

 private:
  static constexpr double kTimesTheCost = 19;

  int64_t every_;
  double last_;
  double cost_ = 0;  ///< unknown before the first, which is therefore due after the first epoch
};

}  // namespace stiefel::record
