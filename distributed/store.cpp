#include "store.h"

#include <netdb.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <utility>

#include "answer.h"
#include "base/printable.h"
#include "error_text.h"
#include "greeting.h"

namespace stiefel::distributed {

namespace {

using std::chrono::milliseconds;

// Debian builds LibTorch without libuv, which a store of LibTorch 2.4 and later takes unless it is told not
// to.
template <class Options>
auto use_plain_sockets(Options& options, int) -> decltype(options.useLibUV, void()) {
  options.useLibUV = false;
}
template <class Options>
void use_plain_sockets(Options&, long) {}

// How much longer than its limit c10d may take to connect: it looks a name up without one, and later versions
// greet the store.
constexpr milliseconds kConnecting = std::chrono::seconds(5);

c10::intrusive_ptr<c10d::Store> try_to_make_store(const Launch& launch, bool server, milliseconds limit) {
  auto options = store_options(server, launch.port);
  options.timeout = limit;
  auto store = answer_within(launch, limit + kConnecting,
                             [address = launch.address, options]() -> c10::intrusive_ptr<c10d::Store> {
                               return c10::make_intrusive<c10d::TCPStore>(address, options);
                             });
  // A launcher counts attempts per machine, so that the counts of two machines can differ: only a store that
  // outlives an attempt needs them.
  return numbered_store(std::move(store), launch.launcher_store ? launch.attempt : 0);
}

/// Whether c10d's error is that another program has the port. It has no number, only the system's words.
bool is_taken(const std::string& error) {
  return error.find(std::strerror(EADDRINUSE)) != std::string::npos ||
         error.find("EADDRINUSE") != std::string::npos;
}

/// Why a host name has no address, in the system's words; empty where it has one.
std::string why_unknown(const std::string& host) {
  addrinfo* found = nullptr;
  const int code = ::getaddrinfo(host.c_str(), nullptr, nullptr, &found);
  if (code != 0) return ::gai_strerror(code);
  ::freeaddrinfo(found);
  return {};
}

/// What is wrong where a store could not be opened, or reached.
std::string explain(const Launch& launch, bool server, milliseconds limit, const std::exception& error) {
  const auto cause = " (" + error_text(error) + ")";
  if (server && is_taken(error.what())) {
    return "port " + std::to_string(launch.port) +
           " cannot be opened for the ranks to meet; another program has it: choose another MASTER_PORT for "
           "all ranks" +
           cause;
  }
  if (const auto why = why_unknown(launch.address); !why.empty()) {
    return "MASTER_ADDR is '" + launch.address + "', a host whose address is not found (" + why +
           "); it must be a name or an address of the machine of rank 0, which every rank can reach";
  }
  if (server) {
    return "rank 0 cannot open the ranks' meeting place at " + launch.meeting_place() +
           "; MASTER_ADDR must be a name or an address of this machine, where rank 0 runs, and MASTER_PORT a "
           "port that it may open" +
           cause;
  }
  // A newer LibTorch asks when it connects.
  if (std::string(error.what()).find("Ping failed") != std::string::npos)
    return not_a_store(launch, error_text(error));
  return "no store answers at " + launch.meeting_place() + " within " + duration_text(limit) +
         "; check that rank 0 runs there, and that MASTER_ADDR and MASTER_PORT are alike on all ranks" +
         cause;
}

c10::intrusive_ptr<c10d::Store> make_store(const Launch& launch, bool server, milliseconds limit) {
  try {
    return try_to_make_store(launch, server, limit);
  } catch (const NoAnswer&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(explain(launch, server, limit, error));
  }
}

}  // namespace

c10d::TCPStoreOptions store_options(bool server, int64_t port) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.isServer = server;
  options.waitWorkers = false;
  use_plain_sockets(options, 0);
  return options;
}

bool holds_store(const Launch& launch) { return launch.rank == 0 && !launch.launcher_store; }

c10::intrusive_ptr<c10d::Store> numbered_store(c10::intrusive_ptr<c10d::Store> store, int64_t attempt) {
  return c10::make_intrusive<c10d::PrefixStore>("stiefel/" + std::to_string(attempt), std::move(store));
}

c10::intrusive_ptr<c10d::Store> open_store(const Launch& launch, milliseconds limit) {
  constexpr milliseconds greeting_time(100);
  if (!holds_store(launch)) {
    const auto greeting = greeting_of(launch.address, launch.port, greeting_time);
    if (!greeting.empty()) {
      throw std::runtime_error(
          not_a_store(launch, "before it is asked it says '" + base::printable(greeting) + "'"));
    }
  }
  return make_store(launch, holds_store(launch), limit);
}

c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch, milliseconds limit) {
  return make_store(launch, false, limit);
}

std::string not_a_store(const Launch& launch, const std::string& how) {
  return "the ranks' store at " + launch.meeting_place() +
         " does not answer as one; another program has that port, or rank 0, which holds the store, has "
         "ended: choose another MASTER_PORT for all ranks, or start all ranks again (" +
         how + ")";
}

}  // namespace stiefel::distributed
