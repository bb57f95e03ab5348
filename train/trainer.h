#pragma once

#include <stiefel/optim/overlapped_step.h>
#include <stiefel/parameters.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "distributed/gradient_buckets.h"
#include "distributed/world.h"
#include "evaluation.h"
#include "learning_rates.h"
#include "methods.h"
#include "models/network.h"
#include "penalty_term.h"
#include "precision.h"
#include "record/checkpoint.h"
#include "step_graph.h"
#include "step_totals.h"
#include "tally.h"
#include "train/resolve_config.h"
#include "train/tasks/task.h"

namespace stiefel::train {

/// How a run ended.
struct Outcome {
  int signal = 0;                     ///< the signal that stopped it, or 0 when it is finished
  std::optional<int64_t> best_epoch;  ///< where it ended early: the epoch that nothing after it bettered
};

/// One training run: the task with its data on the device, the network, its optimisers and where it stands.
/// Everything random is a function of the seed, the epoch and the step, so a checkpoint holds no generator's
/// state.
///
/// With a world, its processes train the network together, each on its part of every batch. All of them build
/// a trainer of the same config and call the same functions; rank 0 writes what a run leaves behind, and is
/// the only one that shows anything. A checkpoint is whole, so a run goes on with any number of processes,
/// with results that are equal up to rounding. Without `sync-norm` a batch normalisation takes its statistics
/// from its process's part, and dropout's masks are drawn for each rank.
class Trainer {
 public:
  /// Builds everything from a resolved config; `folder` is the run's.
  /// Throws std::invalid_argument where the processes of `world` cannot share the batch evenly.
  Trainer(const Config& config, std::filesystem::path folder, std::vector<std::string> command,
          std::shared_ptr<distributed::World> world = nullptr);

  /// Goes on from a checkpoint of this config. Throws std::runtime_error naming what has changed where the
  /// data is not what the checkpoint was trained on.
  void resume(const record::Checkpoints::Loaded& loaded);

  /// Trains until the last epoch or a signal, writing metrics and checkpoints.
  Outcome run();

  /// Takes training steps from where the run stands, writing nothing, and returns the seconds of each; for
  /// benchmarks. On a GPU steps are launched in blocks of ten, as in training, and a block's mean stands for
  /// it.
  std::vector<double> time_steps(int64_t count);

  /// The steps after which all are alike: a GPU's first ones choose algorithms and record the graph.
  int64_t warm_up_steps() const;

  /// Whether orthonormal weights are stepped behind the backward pass.
  bool overlaps_steps() const { return overlapped_ != nullptr; }

  /// The step's CUDA graph.
  const StepGraph& graph() const { return graph_; }
  int64_t steps_per_epoch() const { return task_->steps_per_epoch(); }

  /// ‖XᴴX − I‖_F of every weight that the method constrains.
  std::vector<double> measure_defects() const;

  Evaluation evaluate(Task::Part part);

  models::Network& model() { return *model_; }
  const Task& task() const { return *task_; }
  const ParameterSplit& split() const { return split_; }

  /// What of the data is not as it was when the checkpoint was written; empty where nothing is, and where one
  /// of them does not say.
  std::vector<std::string> changes_of_data(const record::Checkpoints::Loaded& checkpoint) const;

 private:
  void join_ranks();
  void overlap_steps();
  bool is_asked_to_stop();
  int agreed_signal() const;
  void train_epoch(class Display& display);
  void one_step(int64_t step);
  void prepare_step(int64_t step);
  void step_on_device();
  record::EpochMetrics finish_epoch();
  void checkpoint(bool best);
  void write_record(const std::string& status) const;

  Config config_;
  std::filesystem::path folder_;
  std::vector<std::string> command_;
  std::shared_ptr<distributed::World> world_;  ///< none where this process trains alone
  BatchShare share_;
  torch::Device device_;
  NetworkPrecision precision_;
  std::unique_ptr<Task> task_;
  std::shared_ptr<models::Network> model_;
  ParameterSplit split_;
  std::optional<PenaltyTerm> penalty_;
  Optimizers optimizers_;
  std::unique_ptr<OverlappedStep> overlapped_;  ///< none where steps come after the backward pass
  LearningRates rates_;
  record::RunState state_;
  record::Checkpoints checkpoints_;
  Tally tally_;
  std::unique_ptr<distributed::GradientBuckets> buckets_;  ///< with a world
  std::unique_ptr<StepTotals> totals_;                     ///< with a world
  StepGraph graph_;
  std::string why_not_overlapped_;  ///< although asked for; until it is shown
  std::string started_;
  nlohmann::json earlier_;  ///< the parts of the run before this one
};

}  // namespace stiefel::train
