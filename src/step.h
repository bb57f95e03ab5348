#pragma once

#include <stiefel/cayley.h>
#include <stiefel/polar.h>

/// The three ways to take one step. All work in place on a batch x, m of (B, p, n) whose momentum already
/// holds the new gradient: they project m onto the tangent space at x and move x.
namespace stiefel::detail {

/// How far along −M a step goes: α/r with α = min(l, 2q/(‖W‖/r + ε)); r = 1 for Cayley SGD. The closed form
/// takes α = l up to a limit on α‖W‖/r, largest_exact_turn().
struct StepSize {
  at::Tensor rate;   ///< l, 0-dim or one per matrix
  at::Tensor scale;  ///< r, one double per matrix; undefined stands for 1

  /// l/r, one double per matrix: the most that a step can be.
  at::Tensor reach(int64_t batch) const;

  /// Whether M/r may be moderate where MᴴM vanishes: r is not bounded below.
  bool wants_units(const CayleyOptions& options) const;

  /// The same step along a momentum that was multiplied by `unit`.
  StepSize in_units(const at::Tensor& unit) const;

  /// −α/r, one double per matrix, given ‖W‖ of the unscaled momentum, and the most that α‖W‖/r may be where
  /// the form is exact.
  at::Tensor signed_step(const at::Tensor& norm, double exact_turn, const CayleyOptions& options) const;
};

/// The largest α‖W‖ of the closed form for matrices of the type of `like`, u^(−¼). Rounding in R, u‖M‖², is
/// uα²‖M‖² in XᴴX: up to there √u, which the next step's entry correction takes off.
double largest_exact_turn(const at::Tensor& like);

/// One step's arguments. Where `frozen` is defined (B bools), those matrices must not change.
struct StepBatch {
  at::Tensor x;
  at::Tensor m;
  at::Tensor frozen;
  at::Tensor e;  ///< E = XᴴX − I where the caller has it, zero for a matrix that is frozen; else undefined
  at::Tensor s = {};  ///< S = XᴴM likewise

  /// x as the step reads it: zero for a matrix that is frozen, which may hold anything.
  at::Tensor source() const;

  /// Zeroes what would move a matrix that is to be frozen.
  at::Tensor& hold_(at::Tensor& coefficients) const;

  /// x ← x + Fᴴx + Cᴴd, that is X ← X + XF + DC. `source` is what x is read as.
  void advance_(const at::Tensor& source, const at::Tensor& f, const at::Tensor& d, const at::Tensor& c);
};

/// The default: the coefficient form with its corrections. p < n. With `polar` the direction is not M but its
/// polar factor (Cayley Muon), and the step is capped by a bound on ‖W‖₂ instead of `options.norm`.
void polished_step_(StepBatch& batch, const StepSize& step_size, const CayleyOptions& options,
                    const PolarOptions* polar = nullptr);

/// The same where p = n: R = 0, everything is a function of Ω, and there are fewer products.
void square_step_(StepBatch& batch, const StepSize& step_size, const CayleyOptions& options,
                  const PolarOptions* polar = nullptr);

/// The paper's iteration without any correction, valid however far x has drifted; dense or in coefficient
/// form, whichever takes fewer operations.
void literal_step_(StepBatch& batch, const StepSize& step_size, const CayleyOptions& options);

/// The step that the shape and the options call for. `polar` goes with `options.polish` alone.
void step_(StepBatch& batch, const StepSize& step_size, const CayleyOptions& options,
           const PolarOptions* polar = nullptr);

}  // namespace stiefel::detail
