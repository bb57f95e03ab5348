#include "meeting.h"

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "answer.h"
#include "base/printable.h"
#include "error_text.h"
#include "store.h"
#include "world.h"

namespace stiefel::distributed {

namespace {

using std::chrono::milliseconds;

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string text_of(const std::vector<uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

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

int64_t Meeting::add(const std::string& key, int64_t number) {
  return answer_within(launch_, timeout_, [store = store_, key, number] { return store->add(key, number); });
}

void Meeting::set(const std::string& key, const std::string& text) {
  answer_within(launch_, timeout_, [store = store_, key, text] { store->set(key, bytes_of(text)); });
}

std::string Meeting::get(const std::string& key) {
  return answer_within(launch_, timeout_, [store = store_, key] { return text_of(store->get(key)); });
}

bool Meeting::has(const std::string& key) {
  return answer_within(launch_, timeout_, [store = store_, key] { return store->check({key}); });
}

std::string Meeting::set_first(const std::string& key, const std::string& text) {
  return answer_within(launch_, timeout_, [store = store_, key, text] {
    return text_of(store->compareSet(key, {}, bytes_of(text)));
  });
}

void Meeting::wait(const std::string& key, milliseconds limit) {
  answer_within(launch_, limit + timeout_, [store = store_, key, limit] { store->wait({key}, limit); });
}

void Meeting::wait_for_all(const std::string& key, milliseconds limit) {
  const auto open = key + "/all";
  if (add(key, 1) == launch_.size) set(open, kAllCame);
  wait(open, limit);
}

/// What is wrong with this rank beside those that came before it; empty where nothing is.
std::string Meeting::compare_with_others() {
  const auto rank = std::to_string(launch_.rank);
  const auto size = std::to_string(launch_.size);
  if (add("size/count", 1) == 1) {
    set("size/rank", rank);
    set("size", size);
  }
  if (const auto first = get("size"); first != size) {
    return "the ranks differ in WORLD_SIZE: rank " + rank + " has " + size + ", rank " + get("size/rank") +
           " has " + first +
           "; start all ranks alike, and every run that meets on the same machine with a MASTER_PORT of its "
           "own";
  }
  if (add(here(launch_.rank), 1) > 1) {
    return "two processes are rank " + rank + " at " + launch_.meeting_place() +
           "; give every process a RANK of its own, and every run that meets on the same machine a "
           "MASTER_PORT of its "
           "own";
  }
  return {};
}

std::string Meeting::conclude(const std::string& verdict) {
  // Two keys: not every version of the store wakes those who wait for a key that was set by comparison.
  const auto first = set_first("here/verdict", verdict);
  set("here/all", first);
  return first;
}

/// The same, where what answers may be no store at all.
std::string Meeting::own_mistake() {
  try {
    return compare_with_others();
  } catch (const NoAnswer&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error(not_a_store(launch_, error_text(error)));
  }
}

void Meeting::gather_ranks(milliseconds limit) {
  if (const auto mistake = own_mistake(); !mistake.empty()) {
    // Those who wait learn it too; those who have gone on do not, and go on.
    if (conclude(mistake) == kAllCame) throw std::runtime_error(mistake);
    throw SharedError(mistake);
  }
  std::string verdict;
  try {
    if (add("here", 1) == launch_.size) conclude(kAllCame);
    wait("here/all", limit);
    verdict = get("here/all");
  } catch (const NoAnswer&) {
    throw;
  } catch (const std::exception& error) {
    std::vector<int64_t> missing;
    try {
      // The answer to a wait that has timed out may still come, and be taken for that to the next question.
      store_ = connect_store(launch_, std::min(limit, kReconnecting));
      store_->setTimeout(limit);
      for (int64_t rank = 0; rank < launch_.size; ++rank) {
        if (!has(here(rank))) missing.push_back(rank);
      }
    } catch (const NoAnswer&) {
      throw;
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
    verdict = get("here/all");
  }
  if (verdict == kAllCame) return;
  // Rank 0 reports it for all; where it is missing itself, each does.
  if (has(here(0))) throw SharedError(verdict);
  throw std::runtime_error(verdict);
}

std::string Meeting::ask_rank_0(const std::string& name, const std::string& text, milliseconds limit) {
  const auto key = "rank-0/" + name;
  if (launch_.rank == 0) set(key, text);
  try {
    wait(key, limit);
  } catch (const NoAnswer&) {
    throw;
  } catch (const std::exception& error) {
    throw std::runtime_error("rank 0 has not been heard of at " + launch_.meeting_place() +
                             " since all ranks came; it was killed, hangs or cannot be reached (" +
                             error_text(error) + ")");
  }
  return get(key);
}

void Meeting::barrier(milliseconds limit) { wait_for_all("barrier/" + std::to_string(barriers_++), limit); }

void Meeting::require_equal(const std::string& what, const std::string& text, milliseconds limit) {
  const auto key = "equal/" + std::to_string(comparisons_++);
  const auto text_at = [&](int64_t rank) { return key + "/" + std::to_string(rank); };
  set(text_at(launch_.rank), text);
  wait_for_all(key + "/written", limit);
  if (get(text_at(0)) != text) add(key + "/different", 1);
  wait_for_all(key + "/compared", limit);
  if (add(key + "/different", 0) == 0) return;
  const auto first = get(text_at(0));
  std::vector<int64_t> different;
  std::string detail;
  for (int64_t rank = 1; rank < launch_.size; ++rank) {
    const auto other = get(text_at(rank));
    if (other == first) continue;
    if (different.empty()) detail = first_difference(other, first);
    different.push_back(rank);
  }
  throw SharedError("the ranks differ in " + what + ": " + list_ranks(different) +
                    (different.size() == 1 ? " has " : " have, the first of them, ") + detail +
                    "; start all ranks alike");
}

}  // namespace stiefel::distributed
