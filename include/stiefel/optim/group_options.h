#pragma once

#include <stiefel/manifold.h>
#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <functional>
#include <memory>
#include <string>

namespace stiefel {

/// Where the parameters of a group live.
enum class Manifold {
  kStiefel,    ///< orthonormal matrices
  kEuclidean,  ///< anything, moved by plain SGD or ADAM
};

std::string to_string(Manifold manifold);
Manifold manifold_from_string(const std::string& name);

/// The options that a group of any optimiser here has. Each is set by a chained call on the optimiser's own
/// options, CayleySGDOptions(0.2).batched(true), and read by the same name without an argument.
class GroupOptions : public torch::optim::OptimizerOptions {
 public:
  double lr() const { return lr_; }
  Manifold manifold() const { return manifold_; }
  bool batched() const { return batched_; }
  bool orthonormalize_on_start() const { return orthonormalize_on_start_; }
  double weight_decay() const { return weight_decay_; }

  /// The largest ‖XᴴX − I‖ from which a step can set out.
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
  void serialize(torch::serialize::OutputArchive& archive) const override;
  void serialize(torch::serialize::InputArchive& archive) override;

  /// Calls `visitor` with the name and a reference to each option's value.
  struct Visitor {
    std::function<void(const char*, double&)> number;
    std::function<void(const char*, int64_t&)> integer;
    std::function<void(const char*, bool&)> flag;
  };
  virtual void visit(const Visitor& visitor);

 protected:
  explicit GroupOptions(double lr) : lr_(lr) {}

  double lr_;
  Manifold manifold_ = Manifold::kStiefel;
  bool batched_ = false;
  bool orthonormalize_on_start_ = true;
  double weight_decay_ = 0;
};

/// Declares the chained setter beside an inherited or local getter of the same name.
#define STIEFEL_SETTER(type, name) \
  Derived& name(type value) {      \
    this->name##_ = value;         \
    return this->self();           \
  }

/// The chained setters, returning the optimiser's own options type.
template <class Derived, class Base = GroupOptions>
class ChainedGroupOptions : public Base {
 public:
  using Base::batched;
  using Base::lr;
  using Base::manifold;
  using Base::orthonormalize_on_start;
  using Base::weight_decay;

  /// The rate l: a step moves by at most lr·‖M‖.
  STIEFEL_SETTER(double, lr)
  /// Whether the group's parameters are orthonormal matrices or free.
  STIEFEL_SETTER(Manifold, manifold)
  /// Reads a parameter (…, p, n) as a stack of matrices instead of one matrix (c_out, rest).
  STIEFEL_SETTER(bool, batched)
  /// Makes a matrix that is off the manifold by more than 1e-3 orthonormal at construction, with a warning.
  STIEFEL_SETTER(bool, orthonormalize_on_start)
  /// Euclidean groups only: an orthonormal matrix cannot decay.
  STIEFEL_SETTER(double, weight_decay)

  std::unique_ptr<torch::optim::OptimizerOptions> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }

 protected:
  using Base::Base;
  Derived& self() { return static_cast<Derived&>(*this); }
};

}  // namespace stiefel
