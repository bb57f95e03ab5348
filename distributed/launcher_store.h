#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "launch.h"

namespace stiefel::distributed {

/// The store of a launcher that starts all ranks on this machine, at a free port. It outlives every rank, so
/// that the others learn which one is lost, rank 0 too.
class LauncherStore {
 public:
  LauncherStore();

  /// What one of `size` ranks is to be told.
  Launch launch(int64_t rank, int64_t size) const;

  /// What the ranks have written about the one that is lost; empty where none is.
  std::string lost() const;

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

}  // namespace stiefel::distributed
