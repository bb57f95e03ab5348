#include "activation_rows.h"

#include <cmath>

// Compiled with -fno-math-errno, without which a square root is a call.

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define STIEFEL_INLINE inline __attribute__((always_inline))
// The function that chooses between the clones runs before a sanitizer that it would call is there.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define STIEFEL_WIDE __attribute__((target_clones("avx2", "default")))
#endif
#else
#define STIEFEL_INLINE inline
#endif
#ifndef STIEFEL_WIDE
#define STIEFEL_WIDE
#endif

namespace stiefel::models::detail {

namespace {

template <class Real>
constexpr Real kUnderRoot = Real(1e-5);

template <class Real>
STIEFEL_INLINE Real positive(Real x) {
  return x > 0 ? x : Real(0);
}

template <class Real>
STIEFEL_INLINE void mod_relu_any(const ActivationRow<Real>& row, Real* __restrict h) {
  const Real* __restrict z = row.z;
  const Real* __restrict b = row.b;
  if (row.pairs) {
    for (int64_t j = 0; j < row.n; ++j) {
      const Real x = z[2 * j], y = z[2 * j + 1];
      const Real r = std::sqrt(x * x + y * y + kUnderRoot<Real>);
      const Real s = positive(r + b[j]) / r;
      h[2 * j] = s * x;
      h[2 * j + 1] = s * y;
    }
  } else {
    for (int64_t j = 0; j < row.n; ++j) {
      const Real r = std::sqrt(z[j] * z[j] + kUnderRoot<Real>);
      h[j] = positive(r + b[j]) / r * z[j];
    }
  }
}

template <class Real>
STIEFEL_INLINE void mod_relu_slope_any(const ActivationRow<Real>& row, const Real* g, Real* delta,
                                       Real* __restrict db) {
  const Real* __restrict z = row.z;
  const Real* __restrict b = row.b;
  if (row.pairs) {
    for (int64_t j = 0; j < row.n; ++j) {
      const Real x = z[2 * j], y = z[2 * j + 1];
      const Real gx = g[2 * j], gy = g[2 * j + 1];
      const Real r = std::sqrt(x * x + y * y + kUnderRoot<Real>);
      const Real inverse = 1 / r;
      const Real on = r + b[j] > 0 ? Real(1) : Real(0);
      const Real inner = on * (x * gx + y * gy) * inverse;  // Re(z̄g)/r
      const Real s = on * (1 + b[j] * inverse);
      const Real back = inner * b[j] * inverse * inverse;
      delta[2 * j] = s * gx - back * x;
      delta[2 * j + 1] = s * gy - back * y;
      db[j] += inner;
    }
  } else {
    for (int64_t j = 0; j < row.n; ++j) {
      const Real r = std::sqrt(z[j] * z[j] + kUnderRoot<Real>);
      const Real inverse = 1 / r;
      const Real on = r + b[j] > 0 ? Real(1) : Real(0);
      const Real inner = on * z[j] * g[j] * inverse;
      delta[j] = on * (1 + b[j] * inverse) * g[j] - inner * b[j] * inverse * inverse * z[j];
      db[j] += inner;
    }
  }
}

template <class Real>
void tanh_any(const ActivationRow<Real>& row, Real* h) {
  for (int64_t j = 0; j < row.n; ++j) h[j] = std::tanh(row.z[j] + row.b[j]);
}

template <class Real>
void tanh_slope_any(const ActivationRow<Real>& row, const Real* g, Real* delta, Real* db) {
  for (int64_t j = 0; j < row.n; ++j) {
    const Real h = std::tanh(row.z[j] + row.b[j]);
    delta[j] = g[j] * (1 - h * h);
    db[j] += delta[j];
  }
}

}  // namespace

STIEFEL_WIDE void mod_relu(const ActivationRow<float>& row, float* h) { mod_relu_any(row, h); }
STIEFEL_WIDE void mod_relu(const ActivationRow<double>& row, double* h) { mod_relu_any(row, h); }

STIEFEL_WIDE void mod_relu_slope(const ActivationRow<float>& row, const float* g, float* delta, float* db) {
  mod_relu_slope_any(row, g, delta, db);
}
STIEFEL_WIDE void mod_relu_slope(const ActivationRow<double>& row, const double* g, double* delta,
                                 double* db) {
  mod_relu_slope_any(row, g, delta, db);
}

void tanh_row(const ActivationRow<float>& row, float* h) { tanh_any(row, h); }
void tanh_row(const ActivationRow<double>& row, double* h) { tanh_any(row, h); }
void tanh_slope(const ActivationRow<float>& row, const float* g, float* delta, float* db) {
  tanh_slope_any(row, g, delta, db);
}
void tanh_slope(const ActivationRow<double>& row, const double* g, double* delta, double* db) {
  tanh_slope_any(row, g, delta, db);
}

}  // namespace stiefel::models::detail
