#pragma once

#include <ATen/core/Tensor.h>
#include <stiefel/export.h>

#include <cstdint>

namespace stiefel {

/// The processes that train one network together, as an optimiser sees them: ranks 0 … size − 1, each with
/// its own part of the work. process_group.h makes one of a process group of c10d; another kind of
/// communication derives its own.
///
/// Every function is called by all ranks, in the same order and with tensors of the same shape and type.
class STIEFEL_API Ranks {
 public:
  Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;
  virtual ~Ranks();

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  /// Replaces a contiguous tensor by its sum over all ranks, which has the same bits on every rank.
  virtual void sum_(const at::Tensor& tensor) = 0;

  /// The tensors of all ranks, in the order of the ranks: (size, …) of a contiguous tensor.
  virtual at::Tensor gather(const at::Tensor& tensor) = 0;
};

}  // namespace stiefel
