#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <vector>

#include "step_matrices.h"

/// Turns lists of same-shape tensors into batches that are stepped together.
namespace stiefel::detail {

/// A list of points (B, p, n), p ≤ n, all of one shape, with their momenta and gradients. Methods without
/// momentum give an empty list of momenta.
///
/// On an accelerator the whole list is one batch. On the CPU small matrices are stacked into slices that stay
/// in cache, slices go to different threads, and a large matrix is stepped where it lies, by all threads.
class Batches {
 public:
  Batches(at::TensorList points, at::TensorList momenta, at::TensorList gradients);

  /// Matrices that are stepped as one: those of list entries [begin, end), or [first, first + count) of one
  /// entry.
  struct Range {
    size_t begin;
    size_t end;
    int64_t first;
    int64_t count;

    bool is_one_entry() const { return end - begin == 1; }
  };

  /// A range's tensors as (B, p, n); m is undefined where there are no momenta.
  struct Slice {
    Range range;
    at::Tensor x;
    at::Tensor m;
    at::Tensor g;
  };

  /// Calls `work` on every slice, on several threads where that helps, and writes x and m back after each.
  void for_each(const std::function<void(Slice&)>& work) const;

 private:
  std::vector<Range> ranges() const;
  Slice gather(const Range& range) const;
  void scatter(const Slice& slice) const;

  at::TensorList points_;
  at::TensorList momenta_;
  at::TensorList gradients_;
};

/// Calls `work` on every slice of a step's matrices, shape by shape, with the entries of the step's lists
/// that have the slice's shape.
void for_each_batch(const StepMatrices& matrices,
                    const std::function<void(Batches::Slice&, const std::vector<size_t>& entries)>& work);

/// The chosen entries of a list; an empty list stays empty.
std::vector<at::Tensor> pick(at::TensorList list, const std::vector<size_t>& entries);

/// The numbers that belong to a range's matrices, from a list of per-matrix numbers; and back into it.
at::Tensor gather_scalars(at::TensorList list, const Batches::Range& range);
void scatter_scalars(at::TensorList list, const Batches::Range& range, const at::Tensor& values);

}  // namespace stiefel::detail
