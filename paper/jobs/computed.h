#pragma once

#include <functional>
#include <string>

#include "base/stopwatch.h"
#include "paper/experiment.h"

/// What experiments that compute their cells themselves have in common.
namespace stiefel::paper {

using ProgressFunction = std::function<void(const std::string&)>;

/// Notes when a computation began, for its provenance.
class ComputedOrigin {
 public:
  ComputedOrigin();

  /// Commit, hardware, LibTorch, seed, how many there are, seconds so far and date; the command is the
  /// caller's to add.
  nlohmann::json describe(int64_t seed, int64_t seeds) const;

 private:
  std::string started_;
  base::Stopwatch stopwatch_;
};

/// Borne out where all cells that are tests pass.
Verdict judge_by_passes(const Results& results);

}  // namespace stiefel::paper
