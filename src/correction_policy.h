#pragma once

#include <ATen/ATen.h>

/// Which corrections of a step can be left out.
///
/// On the CPU a look at a norm costs nothing, so a correction is made only where it can show in the result;
/// on an accelerator a look would stall the device, so every correction is made. A batch decides as one.
namespace stiefel::detail {

class CorrectionPolicy {
 public:
  /// For a batch x that has drifted by E = XᴴX − I, and steps of at most `reach` (l/r, one double per
  /// matrix).
  CorrectionPolicy(const at::Tensor& x, const at::Tensor& e, const at::Tensor& reach);

  /// Whether terms in which E multiplies S can show: l/r · ‖E‖·‖S‖ against rounding.
  bool entry_shows(const at::Tensor& s) const;

  /// Whether E times the move can show, the move being at most |τ|‖W‖ (or 2, whichever is less).
  bool drift_shows(const at::Tensor& tau, const at::Tensor& norm) const;

  /// Whether rounding in the projection leaves a normal part that shows: l/r · `length` above 1.7√p
  /// roundoffs, the length ‖Σ‖_F of what was projected away as a part of the direction (one double per
  /// matrix).
  bool second_look(const at::Tensor& length) const;

  /// The pairs of series terms that the exit correction needs when ‖V‖ ≤ bound (one double per matrix); 0
  /// where V itself is within rounding, which the next step's entry correction removes. Where no look is
  /// allowed: `otherwise`.
  int64_t series_pairs(const at::Tensor& bound, int64_t otherwise) const;

  /// True where norms may be read on the host.
  bool may_look() const { return may_look_; }

 private:
  bool may_look_;
  double roundoff_;   // u
  double tolerance_;  // u√p
  at::Tensor reach_;
  at::Tensor drift_;  // ‖E‖_F
};

}  // namespace stiefel::detail
