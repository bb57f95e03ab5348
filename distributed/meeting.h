#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "launch.h"

namespace stiefel::distributed {

/// How every store here is made: the server returns at once, whoever has come.
c10d::TCPStoreOptions store_options(bool server, int64_t port);

/// Whether the store is this rank's, and ends with it.
bool holds_store(const Launch& launch);

/// A connection to the key-value store at the launch's meeting place, where rank 0 opens it unless the
/// launcher has one there. A launcher's store outlives the ranks that it starts again, so there keys carry
/// the number of the attempt. Throws std::runtime_error naming the port that is taken, or the place that
/// cannot be reached within the limit.
c10::intrusive_ptr<c10d::Store> open_store(const Launch& launch, std::chrono::milliseconds limit);

/// One more connection of a rank to a store that is open: each connection does one thing at a time.
c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch, std::chrono::milliseconds limit);

/// The part of a store that belongs to one attempt.
c10::intrusive_ptr<c10d::Store> numbered_store(c10::intrusive_ptr<c10d::Store> store, int64_t attempt);

/// What ranks agree on through the store, without a process group.
class Meeting {
 public:
  Meeting(c10::intrusive_ptr<c10d::Store> store, const Launch& launch)
      : opened_(store), store_(std::move(store)), launch_(launch) {}

  /// Waits for all ranks. Throws std::runtime_error naming those that have not come within the limit, and
  /// SharedError where two processes are the same rank, or count to different numbers of ranks. A process
  /// that comes when all ranks are there already throws alone.
  void gather_ranks(std::chrono::milliseconds limit);

  /// Rank 0's text, on every rank. Called once per name.
  std::string ask_rank_0(const std::string& name, const std::string& text, std::chrono::milliseconds limit);

  /// Returns once every rank has called it.
  void barrier(std::chrono::milliseconds limit);

  /// Throws SharedError on every rank, naming the ranks whose text differs from rank 0's and where.
  void require_equal(const std::string& what, const std::string& text, std::chrono::milliseconds limit);

  /// The connection in use: another one where the first was given up.
  const c10::intrusive_ptr<c10d::Store>& store() const { return store_; }

 private:
  std::string own_mistake();
  /// What all ranks are told about their coming: the first verdict counts.
  std::string conclude(const std::string& verdict);
  void wait_for_all(const std::string& key, std::chrono::milliseconds limit);
  std::string read(const std::string& key);

  c10::intrusive_ptr<c10d::Store> opened_;  // rank 0's may hold the store itself, which ends with it
  c10::intrusive_ptr<c10d::Store> store_;
  Launch launch_;
  int64_t barriers_ = 0;
  int64_t comparisons_ = 0;
};

}  // namespace stiefel::distributed
