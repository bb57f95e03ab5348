#pragma once

#include <ATen/ATen.h>
#include <stiefel/export.h>

#include <cstdint>
#include <string>
#include <vector>

/// Orthonormal weights as functions of an unconstrained tensor of the same shape, the proxy: any optimiser
/// trains the proxy, and gradients reach it through the map. OMDSM can be differentiated once, the others as
/// often as LibTorch's own functions.
namespace stiefel {

/// Which map makes the weight.
enum class Parametrization {
  kOmdsm,        ///< K = (V_cV_cᴴ)^(−½)V_c of the centred proxy, in groups of rows: see omdsm
  kMatrixExp,    ///< the exponential of a skew n×n matrix
  kCayley,       ///< the Cayley transform of a skew n×n matrix
  kHouseholder,  ///< a product of p reflections
};

/// "omdsm", "matrix-exp", "cayley", "householder".
STIEFEL_API std::string to_string(Parametrization parametrization);
STIEFEL_API Parametrization parametrization_from_string(const std::string& name);

/// How OMDSM splits a weight.
struct STIEFEL_API OmdsmOptions {
  int64_t group_size = 0;  ///< the most rows that are orthonormal together; 0: as many as there can be

  /// Throws c10::Error where the size is negative.
  void validate() const;
};

/// The sizes of the groups of rows that OMDSM makes orthonormal, each by itself, of a p×n matrix. Centred
/// rows live in n − 1 dimensions, so no group has more rows than that. The groups are as equal as can be,
/// larger ones first: two sizes at most.
STIEFEL_API std::vector<int64_t> omdsm_groups(int64_t p, int64_t n, int64_t group_size = 0);

/// Orthogonal weight normalisation (Huang et al., AAAI 2018): the rows of the proxy V (c_out, …), read as
/// p×n with p = c_out, are centred, and each group of them is replaced by the nearest orthonormal rows,
///
///     V_c = V − mean of each row,  K = (V_cV_cᴴ)^(−½)V_c.
///
/// Rows stay rows where p > n: they are split into groups rather than transposed. Throws where a group is
/// rank-deficient or not finite, since it then has no nearest orthonormal one. The result lies in memory as
/// the proxy does. Real and complex.
STIEFEL_API at::Tensor omdsm(const at::Tensor& proxy, const OmdsmOptions& options = {});

/// The weight that a parametrisation makes of a proxy (c_out, …). For OMDSM this is `omdsm`, and there is no
/// base. The other maps follow torch.nn.utils.parametrizations.orthogonal. The proxy is read as a tall n×p
/// matrix A, transposed where c_out is the smaller side; S = L − Lᴴ with L the lower part of A, padded to
/// n×n:
///
///     kMatrixExp    Q = B exp(S)[:, :p]
///     kCayley       Q = B (I − ½S)⁻¹(I + ½S)[:, :p]
///     kHouseholder  Q = (H₁H₂…H_p)[:, :p] diag(b),  Hⱼ = I − τⱼvⱼvⱼᴴ,  τⱼ = 2/‖vⱼ‖²,
///                   vⱼ = eⱼ + the part of A's column j strictly below its diagonal
///
/// The base, where it is given, fixes where the proxy starts: an orthonormal n×n matrix B, or p phases b of
/// magnitude 1. Without it B = I and b = −1, so that a proxy of zeros gives the first columns of I.
///
/// The order of a row's entries matters to these maps, so they read it as indices run, not as memory lies,
/// and a change of the memory format changes no value. The result has the proxy's memory format.
STIEFEL_API at::Tensor orthonormal_weight(const at::Tensor& proxy, Parametrization parametrization,
                                          const at::Tensor& base = {}, const OmdsmOptions& options = {});

/// A proxy and a base at which a parametrisation gives a wanted weight.
struct ParametrizedStart {
  at::Tensor proxy;
  at::Tensor base;  ///< undefined for OMDSM
};

/// Where to start in order to begin at `weight`, an orthonormal tensor (c_out, …): orthonormal_weight of the
/// result is `weight`. OMDSM can only reach rows of mean zero: there the proxy is the weight itself, whatever
/// it is, and the result is the nearest that OMDSM can reach.
STIEFEL_API ParametrizedStart parametrized_start(const at::Tensor& weight, Parametrization parametrization);

// The names of earlier versions.
using Parametrisation [[deprecated("renamed to Parametrization")]] = Parametrization;
using ParametrisedStart [[deprecated("renamed to ParametrizedStart")]] = ParametrizedStart;
[[deprecated("renamed to parametrization_from_string")]] inline Parametrization parametrisation_from_string(
    const std::string& name) {
  return parametrization_from_string(name);
}
[[deprecated("renamed to parametrized_start")]] inline ParametrizedStart parametrised_start(
    const at::Tensor& weight, Parametrization parametrization) {
  return parametrized_start(weight, parametrization);
}

}  // namespace stiefel
