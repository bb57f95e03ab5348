#pragma once

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "launch.h"

/// Connections to the key-value store through which ranks meet.
namespace stiefel::distributed {

/// How every store here is made: the server returns at once, whoever has come.
c10d::TCPStoreOptions store_options(bool server, int64_t port);

/// Whether the store is this rank's, and ends with it.
bool holds_store(const Launch& launch);

/// A connection to the key-value store at the launch's meeting place, where rank 0 opens it unless the
/// launcher has one there. A launcher's store outlives the ranks that it starts again, so there keys carry
/// the number of the attempt. Throws std::runtime_error naming the port that is taken, the MASTER_ADDR that
/// is nobody's, or the place that cannot be reached within the limit.
c10::intrusive_ptr<c10d::Store> open_store(const Launch& launch, std::chrono::milliseconds limit);

/// One more connection of a rank to a store that is open: each connection does one thing at a time.
c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch, std::chrono::milliseconds limit);

/// The message where what answers at the launch's meeting place is no store, and how that shows.
std::string not_a_store(const Launch& launch, const std::string& how);

/// The part of a store that belongs to one attempt.
c10::intrusive_ptr<c10d::Store> numbered_store(c10::intrusive_ptr<c10d::Store> store, int64_t attempt);

}  // namespace stiefel::distributed
