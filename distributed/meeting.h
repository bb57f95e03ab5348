#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <utility>

#include "launch.h"

namespace stiefel::distributed {

/// What ranks agree on through the store, without a process group. Every function throws NoAnswer where the
/// store does not answer within `timeout`, beside the time that it is to wait for other ranks.
class Meeting {
 public:
  Meeting(c10::intrusive_ptr<c10d::Store> store, const Launch& launch, std::chrono::milliseconds timeout)
      : opened_(store), store_(std::move(store)), launch_(launch), timeout_(timeout) {}

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
  // What c10d's store does.
  int64_t add(const std::string& key, int64_t number);
  void set(const std::string& key, const std::string& text);
  std::string get(const std::string& key);
  bool has(const std::string& key);
  std::string set_first(const std::string& key, const std::string& text);  ///< or returns the one there is
  void wait(const std::string& key, std::chrono::milliseconds limit);

  std::string own_mistake();
  std::string compare_with_others();
  /// What all ranks are told about their coming: the first verdict counts.
  std::string conclude(const std::string& verdict);
  void wait_for_all(const std::string& key, std::chrono::milliseconds limit);

  c10::intrusive_ptr<c10d::Store> opened_;  // rank 0's may hold the store itself, which ends with it
  c10::intrusive_ptr<c10d::Store> store_;
  Launch launch_;
  std::chrono::milliseconds timeout_;
  int64_t barriers_ = 0;
  int64_t comparisons_ = 0;
};

}  // namespace stiefel::distributed
