#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "record/config.h"
#include "run.h"
#include "subject.h"
#include "training_run.h"

/// What the benchmarks compare: the methods of record/method_facts.h under their names there, retractions
/// also with momentum (qr+m), and some variants of our step.
namespace stiefel::bench {

struct Contender {
  std::string name;
  std::string title;
  std::string operations;    ///< floating-point operations of a step on a p×n weight, without SGD's own
  std::string lacks;         ///< what Cayley SGD gives and this does not
  bool constrained = false;  ///< whether it holds weights at or near orthonormality: their defect is measured
  bool needs_network = false;  ///< whether a step needs more than the weights
  bool by_default = true;      ///< whether it runs unless `--methods` says otherwise
  bool slow = false;           ///< an SVD or an n×n solve: minutes on a whole network
  bool countable = false;      ///< a step is matrix products and solves, so that counting these gives a rate
  bool runs_in_bf16 = true;    ///< whether it can train a network in bfloat16

  /// For the step alone; empty where there is none.
  std::function<std::unique_ptr<Run>(const Subject&, const at::Device&)> begin;

  /// For whole training steps, by a config that is not resolved; empty where there are none.
  std::function<std::unique_ptr<TrainingRun>(const record::Config&)> begin_training;
};

const std::vector<Contender>& contenders();

/// Those of these names that have a step, in this order; all the usual ones where there are no names. Throws
/// std::invalid_argument that lists the names where one is unknown or has no step.
std::vector<Contender> step_contenders(const std::vector<std::string>& names);

/// The same for whole training steps.
std::vector<Contender> training_contenders(const std::vector<std::string>& names);

/// The contenders of the standard set: our step and its variants, its dense form, the retractions of the
/// paper's comparison and SGD. `quick` leaves out the slow ones.
std::vector<Contender> standard_contenders(bool quick);

/// The contenders with sgd and cayley-sgd added where they are missing: every ratio needs its baseline.
std::vector<Contender> with_baselines(std::vector<Contender> contenders);

}  // namespace stiefel::bench
