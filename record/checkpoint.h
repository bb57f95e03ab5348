#pragma once

#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/fingerprint.h"
#include "metrics.h"

namespace stiefel::record {

/// The optimisers that share a network's parameters; mostly one.
using Optimizers = std::vector<std::unique_ptr<torch::optim::Optimizer>>;

/// Where a run stands, beside its weights.
struct RunState {
  int64_t epoch = 0;        ///< epochs finished
  int64_t step = 0;         ///< steps finished in the epoch under way
  int64_t total_steps = 0;  ///< over all epochs
  double loss_sum = 0;      ///< over the steps of the epoch under way
  int64_t wrong = 0;        ///< images misclassified in it
  double epoch_seconds = 0;
  double seconds = 0;   ///< of training over all finished epochs
  double best = 1e300;  ///< the lowest error that chose a best checkpoint
  int64_t best_epoch = 0;
  std::vector<EpochMetrics> history;
  std::optional<data::Fingerprint> data;  ///< what it was trained on; older checkpoints do not say

  /// Whether the last `patience` epochs have brought nothing better; never where it is 0.
  bool has_stalled(int64_t patience) const {
    return step == 0 && record::has_stalled(epoch, best_epoch, patience);
  }
};

/// A checkpoint is one file: a line that says what it is, the length and the CRC-32 of what follows, and an
/// archive of the model, the optimisers, the state and the config. LibTorch's own files abort the program on
/// a full disk and load with flipped bits; these are written by us and checked before anything is read from
/// them.
///
/// A folder has the last two and the best.
class Checkpoints {
 public:
  explicit Checkpoints(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Writes the latest one. `best` makes it the best as well.
  void save(const torch::nn::Module& model, const Optimizers& optimizers, const RunState& state,
            const std::string& config, bool best) const;

  /// A checkpoint's content, checked but not yet applied.
  struct Loaded {
    std::filesystem::path path;
    std::string config;
    RunState state;
    std::string archive;
  };

  /// Throws where a checkpoint that is whole is of no use.
  using Check = std::function<void(const Loaded&)>;

  /// The newest one that is whole and passes the check, the best among them; `complaint` gets a line for each
  /// that is not or does not. Nothing where there is none.
  std::optional<Loaded> newest(std::string& complaint, const Check& check = nullptr) const;

  /// The best one, or the newest where there is no best.
  std::optional<Loaded> best(std::string& complaint, const Check& check = nullptr) const;

  bool any() const;

 private:
  std::filesystem::path folder_;
};

/// Reads one file. Throws std::runtime_error naming it and what is wrong with it.
Checkpoints::Loaded read_checkpoint(const std::filesystem::path& path);

/// The same of a file that has been read already.
Checkpoints::Loaded parse_checkpoint(const std::filesystem::path& path, const std::string& file);

/// Puts a checkpoint's content into a model (and optimisers, unless empty) of the same shape.
void restore(const Checkpoints::Loaded& loaded, torch::nn::Module& model, Optimizers* optimizers);

}  // namespace stiefel::record
