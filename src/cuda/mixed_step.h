#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

/// The Cayley step on float32 matrices in mixed precision: half-precision products on tensor cores, matrices
/// that stay orthonormal to about 1e-5. Plain CUDA; all matrices of a list, whatever their shapes, in eleven
/// launches and one for every 60 matrices' pointers.
namespace stiefel::cuda {

/// One matrix as rows: element (i, j), i < p ≤ n, of x lies at x[i·x_row + j·x_column], likewise m and g.
struct Matrix {
  float* x;
  float* m;
  const float* g;
  double* v;  ///< Cayley ADAM's second moment and step count; null for Cayley SGD
  double* k;
  int x_row, x_column, m_row, m_column, g_row, g_column;
};

struct Shape {
  int p;
  int n;
};

/// What a step is told. M ← decay·M + gain·G, and X moves along −M (Cayley SGD) or −M/r (Cayley ADAM).
struct Recipe {
  double decay;
  double gain;
  double beta1;  ///< of Cayley ADAM's r = (1 − β₁ᵏ)√(v/(1 − β₂ᵏ) + ε)
  double beta2;
  double q;
  double eps;
  bool adam;
  const double* rate;     ///< l, on the device
  double farthest;        ///< the largest ‖E‖ from which a matrix is moved
  int64_t* skipped;       ///< counts matrices that are left in place, on the device
  int64_t* off_manifold;  ///< counts those that were too far off the manifold; may be null
};

/// Where everything lies for a list of shapes: made once, used for every step. The table is host memory that
/// the caller copies to the device.
class MixedPlan {
 public:
  explicit MixedPlan(const std::vector<Shape>& shapes);

  const std::vector<char>& table() const { return table_; }
  size_t workspace_bytes() const { return workspace_bytes_; }

  /// One step. `table` and `workspace` are device memory, 256-byte aligned; the workspace holds nothing from
  /// one step to the next. Nothing waits for the device, and the launches can be captured.
  cudaError_t step(const Matrix* matrices, const Recipe& recipe, const void* table, void* workspace,
                   cudaStream_t stream) const;

 private:
  /// A list in the table.
  struct List {
    size_t offset;
    int count;
  };

  std::vector<char> table_;
  size_t workspace_bytes_ = 0;
  size_t widest_row_ = 0;
  int64_t shared_ = 0;  // where the workspace of all matrices together begins
  int matrices_ = 0;
  List rows_ = {}, first_ = {}, second_ = {}, pairs_ = {}, thin_ = {}, squares_ = {};
};

}  // namespace stiefel::cuda
