#pragma once

#include <ATen/core/Tensor.h>
#include <stiefel/export.h>

#include <cstdint>
#include <string>
#include <vector>

namespace stiefel {

/// The processes that train one network together, as an optimizer sees them: ranks 0 … size − 1, each with
/// its own part of the work. process_group.h makes one of a process group of c10d; another kind of
/// communication derives its own.
///
/// Every function is called by all ranks, in the same order and with tensors of the same shape and type.
class STIEFEL_API Ranks {
 public:
  Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks();

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  /// Replaces a contiguous tensor by its sum over all ranks, which has the same bits on every rank.
  virtual void sum_(const at::Tensor& tensor) = 0;

  /// The tensors of all ranks, in the order of the ranks: (size, …) of a contiguous tensor.
  virtual at::Tensor gather(const at::Tensor& tensor) = 0;

  /// By which operators find it while it lives; unique in this process.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
};

/// About what a step of a weight costs: np² + p³ per matrix, in units of some ten operations.
STIEFEL_API int64_t step_cost(at::IntArrayRef shape, bool batched = false);

/// Which of `ranks` ranks does which piece of work: the most expensive piece first, each to the rank that has
/// the least to do, the lowest of these where several do. `loads` is what the ranks have to do already, none
/// if empty, and what they have to do afterwards.
STIEFEL_API std::vector<int64_t> assign_owners(const std::vector<int64_t>& costs, int64_t ranks,
                                               std::vector<int64_t>& loads);

}  // namespace stiefel
