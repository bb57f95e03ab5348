#pragma once

#include <optional>

#include "correction_policy.h"
#include "polar_direction.h"
#include "step.h"

namespace stiefel::detail {

/// The step of the coefficient form in its stages. Between them stand the Gram matrices that each needs: sums
/// over the long side, which a rank that has a part of it adds to those of the others.
///
///     project(S = XᴴM);  take_unit(…) where wants_unit();  move(T = MᴴM, S = XᴴM)
class PolishedStep {
 public:
  /// `e` is E = XᴴX − I of the whole matrices; `batch` outlives the step.
  PolishedStep(StepBatch& batch, at::Tensor e, const StepSize& step_size, const CayleyOptions& options,
               const PolarOptions* polar);

  /// Projects the momentum onto the tangent space, given S = XᴴM.
  void project(at::Tensor s);

  /// Whether M must be measured in units: for a polar direction, and where M/r may be moderate although MᴴM
  /// vanishes.
  bool wants_unit() const;

  /// Then, before T is computed: M in units of its largest entry, one number per matrix.
  void take_unit(const at::Tensor& largest);

  /// What rounding has left of the normal part is measured by a second S, of m(), where that can show. Given
  /// T = MᴴM of m().
  bool wants_second_look(const at::Tensor& t);

  /// Whether the second look at S found a normal part that is not small against M, as of a gradient that is
  /// normal but for rounding. What is left of T = MᴴM without it would be rounding again. Never where nobody
  /// may look.
  bool wants_another_projection(const at::Tensor& t, const at::Tensor& second) const;

  /// Takes that part off M. T and S are to be computed again.
  void project_again(const at::Tensor& second);

  /// Moves X, given T and, after a second look, S. wants_second_look() comes before it in any case.
  void move(const at::Tensor& t, const at::Tensor& second);

  /// X as it is read, and the momentum whose Gram matrices are wanted.
  const at::Tensor& x() const { return x_; }
  const at::Tensor& m() const { return m_; }

 private:
  StepBatch& batch_;
  StepSize step_size_;  // of m()
  const CayleyOptions& options_;
  const PolarOptions* polar_;
  at::Tensor x_, e_;
  CorrectionPolicy policy_;
  at::Tensor s_, sigma_, m_;
  std::optional<UnitMomentum> unit_;
  at::Tensor sigma_length_;  // ‖Σ‖_F, in units of m(); undefined where nobody looks
};

}  // namespace stiefel::detail
