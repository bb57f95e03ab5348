#pragma once

#include <ATen/ATen.h>
#include <stiefel/cayley.h>
#include <stiefel/cayley_muon.h>

#include <vector>

#include "batches.h"
#include "gradients.h"
#include "step_matrices.h"

/// The steps behind the operators.
namespace stiefel::detail {

/// Cayley ADAM's numbers: v and k of every matrix, and β₁, β₂ of r = (1 − β₁ᵏ)√(v/(1 − β₂ᵏ) + ε).
struct AdamNumbers {
  at::TensorList second_moments, steps;
  double beta1, beta2;

  /// Throws unless there is one double per matrix in both lists, none overlapping another. `counts` are the
  /// matrices of each weight.
  void check(const std::vector<int64_t>& counts, const at::Device& device) const;
};

/// How a step takes its gradients in: M ← decay·M + gain·G, and X moves along −M (Cayley SGD), along −M/r
/// where there are `adam`'s numbers, and along M's polar factor where there are `muon`'s terms.
struct UpdateRule {
  double decay;
  double gain;
  const AdamNumbers* adam = nullptr;
  const MuonTerms* muon = nullptr;
};

/// v ← β₂v + (1 − β₂)‖G‖²_F and k ← k + 1 for the matrices of a range that move. Returns r of each.
at::Tensor advance_(const AdamNumbers& adam, const BatchRange& range, const Gradients& gradient, double eps);

/// The rate times what the shape of the matrices, n columns long, makes of it.
at::Tensor scaled_rate(const at::Tensor& rate, const MuonTerms& terms, int64_t n);

/// A step by ATen's operators, on any device: one batch per shape.
void step_by_operators(const StepMatrices& matrices, const StepCounters& counters, const at::Tensor& rate,
                       const UpdateRule& rule, const CayleyOptions& options);

}  // namespace stiefel::detail
