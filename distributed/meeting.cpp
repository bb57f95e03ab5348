#include "meeting.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "base/printable.h"
#include "error_text.h"
#include "world.h"

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

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

c10::intrusive_ptr<c10d::Store> make_store(const Launch& launch, bool server, milliseconds limit) {
  auto options = store_options(server, launch.port);
  options.timeout = limit;
  auto store = c10::make_intrusive<c10d::TCPStore>(launch.address, options);
  // A launcher counts attempts per machine, so that the counts of two machines can differ: only a store that
  // outlives an attempt needs them.
  return numbered_store(std::move(store), launch.launcher_store ? launch.attempt : 0);
}

constexpr const char* kAllCame = "1";

// How long a store may take to answer once more that has answered before.
constexpr milliseconds kReconnecting = std::chrono::seconds(5);

std::string here(int64_t rank) { return "here/" + std::to_string(rank); }

/// "rank 3", "ranks 1, 4 and 7", "ranks 1, 2, 3, 4 and 60 more".
std::string list_ranks(const std::vector<int64_t>& ranks) {
  constexpr size_t most = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const size_t shown = std::min(ranks.size(), most);
  for (size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == ranks.size();
    text += (i == 0 ? "" : last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  if (shown < ranks.size()) text += " and " + std::to_string(ranks.size() - shown) + " more";
  return text;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Where a text differs from rank 0's first: "'lr = 0.1' (rank 0: 'lr = 0.2')".
std::string first_difference(const std::string& text, const std::string& first) {
  const auto ours = lines_of(text);
  const auto zeros = lines_of(first);
  const auto line = [](const std::vector<std::string>& lines, size_t i) {
    return i < lines.size() ? "'" + base::printable(lines[i]) + "'" : std::string("nothing");
  };
  for (size_t i = 0; i < std::max(ours.size(), zeros.size()); ++i) {
    if (i < ours.size() && i < zeros.size() && ours[i] == zeros[i]) continue;
    return line(ours, i) + " where rank 0 has " + line(zeros, i);
  }
  return "another line break than rank 0's";
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
  const bool server = holds_store(launch);
  try {
    return make_store(launch, server, limit);
  } catch (const std::exception& error) {
    if (server) {
      throw std::runtime_error(
          "port " + std::to_string(launch.port) +
          " cannot be opened for the ranks to meet; another program has it, perhaps: choose "
          "another MASTER_PORT for all ranks (" +
          error_text(error) + ")");
    }
    throw std::runtime_error(
        "no store answers at " + launch.meeting_place() + " within " + duration_text(limit) +
        "; check that rank 0 runs there, and that MASTER_ADDR and MASTER_PORT are alike on "
        "all ranks (" +
        error_text(error) + ")");
  }
}

c10::intrusive_ptr<c10d::Store> connect_store(const Launch& launch, milliseconds limit) {
  return make_store(launch, false, limit);
}

std::string Meeting::read(const std::string& key) {
  const auto bytes = store_->get(key);
  return {bytes.begin(), bytes.end()};
}

void Meeting::wait_for_all(const std::string& key, milliseconds limit) {
  const auto open = key + "/all";
  if (store_->add(key, 1) == launch_.size) store_->set(open, bytes_of(kAllCame));
  store_->wait({open}, limit);
}

/// What is wrong with this rank beside those that came before it; empty where nothing is.
std::string Meeting::own_mistake() {
  const auto rank = std::to_string(launch_.rank);
  const auto size = std::to_string(launch_.size);
  if (store_->add("size/count", 1) == 1) {
    store_->set("size/rank", bytes_of(rank));
    store_->set("size", bytes_of(size));
  }
  if (const auto first = read("size"); first != size) {
    return "the ranks differ in WORLD_SIZE: rank " + rank + " has " + size + ", rank " + read("size/rank") +
           " has " + first +
           "; start all ranks alike, and every run that meets on the same machine with a MASTER_PORT of its "
           "own";
  }
  if (store_->add(here(launch_.rank), 1) > 1) {
    return "two processes are rank " + rank + " at " + launch_.meeting_place() +
           "; give every process a RANK of its own, and every run that meets on the same machine a "
           "MASTER_PORT of its "
           "own";
  }
  return {};
}

std::string Meeting::conclude(const std::string& verdict) {
  // Two keys: not every version of the store wakes those who wait for a key that was set by comparison.
  const auto bytes = store_->compareSet("here/verdict", {}, bytes_of(verdict));
  store_->set("here/all", bytes);
  return {bytes.begin(), bytes.end()};
}

void Meeting::gather_ranks(milliseconds limit) {
  if (const auto mistake = own_mistake(); !mistake.empty()) {
    // Those who wait learn it too; those who have gone on do not, and go on.
    if (conclude(mistake) == kAllCame) throw std::runtime_error(mistake);
    throw SharedError(mistake);
  }
  std::string verdict;
  try {
    if (store_->add("here", 1) == launch_.size) conclude(kAllCame);
    store_->wait({"here/all"}, limit);
    verdict = read("here/all");
  } catch (const std::exception& error) {
    std::vector<int64_t> missing;
    try {
      // The answer to a wait that has timed out may still come, and be taken for that to the next question.
      store_ = connect_store(launch_, std::min(limit, kReconnecting));
      store_->setTimeout(limit);
      for (int64_t rank = 0; rank < launch_.size; ++rank) {
        if (!store_->check({here(rank)})) missing.push_back(rank);
      }
    } catch (const std::exception&) {
      throw std::runtime_error("the store at " + launch_.meeting_place() +
                               " went away before all ranks had come: rank 0, which holds it, has ended (" +
                               error_text(error) + ")");
    }
    if (missing.empty()) throw;
    const auto what = list_ranks(missing) + " of " + std::to_string(launch_.size) + " did not come to " +
                      launch_.meeting_place() + " within " + duration_text(limit) +
                      "; start as many processes as WORLD_SIZE says, each of which can reach that place, or "
                      "raise --timeout";
    if (conclude(what) == what) throw std::runtime_error(what);
    verdict = read("here/all");
  }
  if (verdict == kAllCame) return;
  // Rank 0 reports it for all; where it is missing itself, each does.
  if (store_->check({here(0)})) throw SharedError(verdict);
  throw std::runtime_error(verdict);
}

std::string Meeting::ask_rank_0(const std::string& name, const std::string& text, milliseconds limit) {
  const auto key = "rank-0/" + name;
  if (launch_.rank == 0) store_->set(key, bytes_of(text));
  store_->wait({key}, limit);
  return read(key);
}

void Meeting::barrier(milliseconds limit) { wait_for_all("barrier/" + std::to_string(barriers_++), limit); }

void Meeting::require_equal(const std::string& what, const std::string& text, milliseconds limit) {
  const auto key = "equal/" + std::to_string(comparisons_++);
  const auto text_of = [&](int64_t rank) { return key + "/" + std::to_string(rank); };
  store_->set(text_of(launch_.rank), bytes_of(text));
  wait_for_all(key + "/written", limit);
  if (read(text_of(0)) != text) store_->add(key + "/different", 1);
  wait_for_all(key + "/compared", limit);
  if (store_->add(key + "/different", 0) == 0) return;
  const auto first = read(text_of(0));
  std::vector<int64_t> different;
  std::string detail;
  for (int64_t rank = 1; rank < launch_.size; ++rank) {
    const auto other = read(text_of(rank));
    if (other == first) continue;
    if (different.empty()) detail = first_difference(other, first);
    different.push_back(rank);
  }
  throw SharedError("the ranks differ in " + what + ": " + list_ranks(different) +
                    (different.size() == 1 ? " has " : " have, the first of them, ") + detail +
                    "; start all ranks alike");
}

}  // namespace stiefel::distributed
