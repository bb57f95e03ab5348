#pragma once

#include <ATen/ATen.h>
#include <stiefel/export.h>

#include <optional>
#include <string>

/// Soft orthonormality: penalties that pull a weight towards the Stiefel manifold, to be added to any loss
/// and minimised by any Euclidean optimiser (Bansal, Chen, Wang, NeurIPS 2018).
///
/// A weight is read as stiefel::MatrixView reads it: K is p×n with p ≤ n, so E = KKᴴ − I is on the small
/// side, the only one on which it can vanish. Real and complex types; half and bfloat16 are computed in
/// float. The result is a 0-dim tensor of real type, float or double, and is differentiable once: backward
/// with create_graph throws.
namespace stiefel {

/// Which penalty.
enum class Penalty {
  kSo,    ///< ‖KKᴴ − I‖²_F
  kDso,   ///< ‖KKᴴ − I‖²_F + ‖KᴴK − I‖²_F = 2·SO + n − p
  kSrip,  ///< an estimate of ‖KKᴴ − I‖₂ by power iteration
};

STIEFEL_API std::string to_string(Penalty kind);
STIEFEL_API Penalty penalty_from_string(const std::string& name);

/// How a weight is read and how SRIP's power iteration runs.
struct STIEFEL_API PenaltyOptions {
  int64_t rounds = 2;    ///< SRIP: the rounds of the power iteration
  bool batched = false;  ///< a weight (…, p, n) is a stack of matrices instead of one matrix (c_out, rest)
  /// SRIP: where the start vectors come from; LibTorch's own generator where there is none.
  std::optional<at::Generator> generator = std::nullopt;

  /// Throws c10::Error naming the first value that is out of range.
  void validate() const;
};

/// SO = ‖KKᴴ − I‖²_F, with the gradient 4(KKᴴ − I)K; of a stack, the sum over its matrices.
STIEFEL_API at::Tensor so_penalty(const at::Tensor& weight, bool batched = false);

/// DSO = ‖KKᴴ − I‖²_F + ‖KᴴK − I‖²_F. The two differ by the constant n − p alone, so it costs what SO costs
/// and pulls twice as hard; it never falls below n − p.
STIEFEL_API at::Tensor dso_penalty(const at::Tensor& weight, bool batched = false);

/// SRIP: from a random unit vector v, `rounds` times u = Ev, σ = ‖u‖, v = u/σ; the last σ is the value. It is
/// a lower bound of ‖E‖₂ that grows with the rounds. The gradient is that of the whole iteration, the start
/// vector held fixed. Where σ = 0 the value and the gradient are 0; just beside it the gradient of a norm
/// does not fade, it only changes direction.
STIEFEL_API at::Tensor srip_penalty(const at::Tensor& weight, const PenaltyOptions& options = {});

/// The sum of one penalty over a list of weights of any shapes, which must lie on one device. Small matrices
/// of one shape are computed together, so one call for a whole network is faster than one a layer. An empty
/// list is an error: a penalty on nothing is a mistake that a 0 would hide.
///
/// SRIP draws its start vectors shape by shape and type by type, in the order in which these first occur: one
/// Gaussian tensor (B, p, 1) for the B matrices that share them.
STIEFEL_API at::Tensor penalty(Penalty kind, at::TensorList weights, const PenaltyOptions& options = {});

}  // namespace stiefel
