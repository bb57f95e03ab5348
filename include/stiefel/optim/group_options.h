#pragma once

#include <stiefel/detail/arg.h>
#include <stiefel/detail/option_archive.h>
#include <stiefel/export.h>
#include <stiefel/manifold.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <string>

namespace stiefel {

/// Where the parameters of a group live.
enum class Manifold {
  kStiefel,    ///< orthonormal matrices
  kEuclidean,  ///< anything, moved by plain SGD or ADAM
};

STIEFEL_API std::string to_string(Manifold manifold);
STIEFEL_API Manifold manifold_from_string(const std::string& name);

/// The options that a group of any optimiser here has. Each is set by a chained call on the optimiser's own
/// options, CayleySGDOptions(0.2).batched(true), and read by the same name without an argument.
class STIEFEL_API GroupOptions : public torch::optim::OptimizerOptions {
 public:
  using Visitor = detail::OptionVisitor;

  double lr() const { return lr_; }
  Manifold manifold() const { return manifold_; }
  bool batched() const { return batched_; }
  int64_t shard_dim() const { return shard_dim_; }
  bool is_sharded() const { return manifold_ == Manifold::kStiefel && shard_dim_ >= 0; }
  bool orthonormalize_on_start() const { return orthonormalize_on_start_; }
  double weight_decay() const { return weight_decay_; }

  /// The largest ‖XᴴX − I‖ that is left bit for bit when a group is first seen: the point may come from a
  /// checkpoint, and steps keep it where they keep points.
  virtual double nearest_start() const { return 1e-3; }

  /// The largest ‖XᴴX − I‖ from which a step can start.
  virtual double farthest_start() const { return kFarthestStart; }

  /// Throws c10::Error naming the first option that is out of range, or that has no meaning for the
  /// group's manifold.
  virtual void validate() const;

  /// Throws where an option is out of range for a group of either kind.
  virtual void validate_method() const {}

  /// Resets what only Euclidean groups use: a default meant for them says nothing about matrices on the
  /// manifold.
  virtual void drop_euclidean();

  double get_lr() const override { return lr_; }
  void set_lr(const double lr) override { lr_ = lr; }

 protected:
  explicit GroupOptions(double lr) : lr_(lr) {}

  /// Calls `visitor` with the name and the value of every option above. Options of derived classes add
  /// theirs, in a list that serves both to write an archive and to read it.
  template <class Self, class Visitor>
  static void visit_group(Self& self, const Visitor& visitor) {
    visitor("manifold", self.manifold_);
    visitor("lr", self.lr_);
    visitor("batched", self.batched_);
    visitor("orthonormalize_on_start", self.orthonormalize_on_start_);
    visitor("weight_decay", self.weight_decay_);
  }

  /// The learning rate l: a step moves by at most l·‖M‖.
  double lr_;
  /// Whether the parameters are orthonormal matrices or free.
  Manifold manifold_ = Manifold::kStiefel;
  /// Reads a parameter (…, p, n) as a stack of matrices instead of one matrix (c_out, rest).
  bool batched_ = false;
  /// Which dimension of each weight (c_out, rest), or of its matrices with `batched`, is divided among the
  /// ranks of ManifoldOptimizer::distribute: 0, where the columns are orthonormal; 1, where the rows are;
  /// -1: none, every rank has the whole weight. How weights lie is not part of an archive.
  int64_t shard_dim_ = -1;
  /// Makes a matrix that is off the manifold by more than 1e-3 orthonormal at construction, with a warning.
  bool orthonormalize_on_start_ = true;
  /// Euclidean groups only: an orthonormal matrix cannot decay.
  double weight_decay_ = 0;
};

}  // namespace stiefel
