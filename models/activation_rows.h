#pragma once

#include <cstdint>

/// The activations of a recurrence over rows of hidden units, on the CPU: plain loops, compiled for wide
/// registers where the machine has them. A complex number is two reals side by side (`pairs`).
namespace stiefel::models::detail {

/// Where the pieces of a row lie; n hidden units.
template <class Real>
struct ActivationRow {
  const Real* z;
  const Real* b;
  int64_t n;
  bool pairs;
};

/// h = z·max(0, r + b)/r with r = √(|z|² + 1e-5).
void mod_relu(const ActivationRow<float>& row, float* h);
void mod_relu(const ActivationRow<double>& row, double* h);

/// Given the gradient g of h, the gradient δ = sg − (b/r³) Re(z̄g) z of z, s = max(0, r + b)/r, where the unit
/// is on, and of b, Re(z̄g)/r, which is added to db. δ may be g.
void mod_relu_slope(const ActivationRow<float>& row, const float* g, float* delta, float* db);
void mod_relu_slope(const ActivationRow<double>& row, const double* g, double* delta, double* db);

/// h = tanh(z + b), and its slope from h itself: δ = g(1 − h²). Real only.
void tanh_row(const ActivationRow<float>& row, float* h);
void tanh_row(const ActivationRow<double>& row, double* h);
void tanh_slope(const ActivationRow<float>& row, const float* g, float* delta, float* db);
void tanh_slope(const ActivationRow<double>& row, const double* g, double* delta, double* db);

}  // namespace stiefel::models::detail
