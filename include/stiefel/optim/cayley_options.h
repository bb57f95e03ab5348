#pragma once

#include <stiefel/cayley.h>
#include <stiefel/optim/group_options.h>

#include <limits>

namespace stiefel {

/// What a group of either Cayley optimiser has beyond any group's options: how the Cayley transform is
/// computed.
class CayleyGroupOptions : public GroupOptions {
 public:
  double eps() const { return eps_; }
  double q() const { return q_; }
  int64_t iterations() const { return iterations_; }
  bool exact() const { return exact_; }
  Norm norm() const { return norm_; }
  bool polish() const { return polish_; }
  Precision precision() const { return precision_; }

  CayleyOptions cayley() const { return {q_, eps_, iterations_, exact_, norm_, polish_, precision_}; }

  /// The paper's iteration to the letter starts anywhere; the entry correction must converge.
  double farthest_start() const override {
    return polish_ ? GroupOptions::farthest_start() : std::numeric_limits<double>::infinity();
  }
  void validate_method() const override { cayley().validate(); }
  void serialize(torch::serialize::OutputArchive& archive) const override;
  void serialize(torch::serialize::InputArchive& archive) override;
  void visit(const Visitor& visitor) override;

 protected:
  using GroupOptions::GroupOptions;

  double eps_ = 1e-8;
  double q_ = 0.5;
  int64_t iterations_ = 2;
  bool exact_ = false;
  Norm norm_ = Norm::kFrobenius;
  bool polish_ = true;
  Precision precision_ = Precision::kFull;
};

/// Their chained setters.
template <class Derived>
class ChainedCayleyOptions : public ChainedGroupOptions<Derived, CayleyGroupOptions> {
  using Base = ChainedGroupOptions<Derived, CayleyGroupOptions>;

 public:
  using Base::eps;
  using Base::exact;
  using Base::iterations;
  using Base::norm;
  using Base::polish;
  using Base::precision;
  using Base::q;

  /// ε of the paper's divisions.
  STIEFEL_SETTER(double, eps)
  /// The contraction factor of the iteration: α‖W‖ ≤ 2q.
  STIEFEL_SETTER(double, q)
  /// s, the rounds of the fixed-point iteration.
  STIEFEL_SETTER(int64_t, iterations)
  /// The closed-form Cayley transform by a p×p solve instead of the iteration.
  STIEFEL_SETTER(bool, exact)
  /// The norm of W in the bound on α.
  STIEFEL_SETTER(Norm, norm)
  /// The corrections that keep the matrix orthonormal; without them the step is the paper's to the letter.
  STIEFEL_SETTER(bool, polish)
  /// The arithmetic on a GPU: full, or mixed, which is several times faster and keeps ‖XᴴX − I‖ at about 1e-5
  /// (up to 1.5e-4 where the gradient's normal part is far larger than its tangent part).
  STIEFEL_SETTER(Precision, precision)

 protected:
  using Base::Base;
};

}  // namespace stiefel
