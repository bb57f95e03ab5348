#pragma once

#include <ATen/core/Tensor.h>
#include <stiefel/ranks.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace stiefel::distributed {

/// An error that every rank throws alike, so that it is enough for rank 0 to report it.
struct SharedError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An all-reduce under way.
class Pending {
 public:
  virtual ~Pending() = default;

  /// Waits until the tensor holds the sum. On a GPU the stream waits, not the host.
  virtual void wait() = 0;
};

/// The processes that train one network together, connected: ranks 0 … size − 1. Every function but rank()
/// and size() is called by all ranks in the same order, with tensors of the same shape and type. A rank that
/// is lost ends the others; see join.h.
class World {
 public:
  World() = default;
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  virtual ~World() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;

  /// By what tensors travel: "gloo" or "nccl".
  virtual std::string backend() const = 0;

  /// The same processes as an optimizer sees them.
  virtual std::shared_ptr<Ranks> ranks() const = 0;

  /// Starts to replace a contiguous tensor by its sum over all ranks, which has the same bits on every rank.
  virtual std::unique_ptr<Pending> start_sum_(at::Tensor tensor) = 0;

  /// Replaces a contiguous tensor by that of the rank `root`.
  virtual void broadcast_(const at::Tensor& tensor, int64_t root = 0) = 0;

  /// Returns once every rank has called it. Waits for the hosts alone, not for work on their GPUs.
  virtual void barrier() = 0;

  /// Throws on every rank an error that names the ranks whose text differs from rank 0's. `what` is its
  /// subject: "config.toml".
  virtual void require_equal(const std::string& what, const std::string& text) = 0;
};

}  // namespace stiefel::distributed
