#include "heartbeat.h"

#include <algorithm>
#include <exception>
#include <sstream>
#include <utility>
#include <vector>

#include "answer.h"
#include "error_text.h"
#include "running_time.h"
#include "store.h"

namespace stiefel::distributed {

namespace {

using std::chrono::milliseconds;

std::string key(const std::string& what, int64_t rank) { return what + "/" + std::to_string(rank); }

constexpr const char* kLost = "lost";
constexpr const char* kSuspicion = "suspicion";

/// The first to notice writes what all others then report.
void publish(c10d::Store& store, const std::string& what) {
  if (store.add("lost/count", 1) == 1) store.set(kLost, std::vector<uint8_t>(what.begin(), what.end()));
}

}  // namespace

std::string lost_rank(c10d::Store& store) {
  if (!store.check({kLost})) return {};
  const auto text = store.get(kLost);
  return {text.begin(), text.end()};
}

Heartbeat::Heartbeat(const Launch& launch, milliseconds timeout, OnLost on_lost)
    : launch_(launch),
      timeout_(timeout),
      interval_(std::clamp(timeout / 20, milliseconds(20), milliseconds(1000))),
      suspicious_timeout_(std::min(timeout, std::max(5 * interval_, milliseconds(2000)))),
      on_lost_(std::move(on_lost)),
      holds_store_(holds_store(launch)),
      store_(connect_store(launch, timeout)),
      talker_([this] { talk(); }),
      guard_([this] { guard(); }) {}

Heartbeat::~Heartbeat() { stop(); }

void Heartbeat::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (talker_.joinable()) talker_.join();
  {
    const std::lock_guard lock(mutex_);
    talker_ended_ = true;
  }
  changed_.notify_all();
  if (guard_.joinable()) guard_.join();
}

bool Heartbeat::pause() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, interval_, [this] { return stopping_; });
  return !stopping_;
}

std::string Heartbeat::store_name() const {
  return std::string(launch_.launcher_store ? "the launcher's store" : "rank 0, which holds the store,") +
         " at " + launch_.meeting_place();
}

void Heartbeat::talk() {
  const auto next = (launch_.rank + 1) % launch_.size;
  RunningTime time(interval_);
  int64_t heard = 0;
  milliseconds silence(0);
  bool told = false;
  try {
    do {
      store_->add(key("beat", launch_.rank), 1);
      if (const auto lost = lost_rank(*store_); !lost.empty()) return report(lost);
      if (store_->check({kSuspicion})) suspicious_ = true;
      if (suspicious_ && !std::exchange(told, true)) store_->set(kSuspicion, std::vector<uint8_t>{1});
      const auto beats = next == launch_.rank ? heard + 1 : store_->add(key("beat", next), 0);
      const auto passed = time.since_last_look();
      silence = beats == heard ? silence + passed : milliseconds(0);
      heard = beats;
      ++rounds_;
      if (silence >= limit() && !store_->check({key("left", next)})) {
        const auto what = "rank " + std::to_string(next) + " has not been heard of for " +
                          duration_text(silence) + "; it was killed, hangs or cannot be reached";
        publish(*store_, what);
        return report(what);
      }
    } while (pause());
  } catch (const std::exception& error) {
    report(store_name() + " can no longer be reached (" + error_text(error) + ")");
  }
}

void Heartbeat::guard() {
  RunningTime time(interval_);
  int64_t seen = -1;
  milliseconds silence(0);
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, interval_, [this] { return talker_ended_; })) return;
    }
    const auto passed = time.since_last_look();
    const int64_t rounds = rounds_;
    silence = rounds == seen && !reported_ ? silence + passed : milliseconds(0);
    seen = rounds;
    if (silence >= limit()) {
      return report(store_name() + " has not answered for " + duration_text(silence) +
                    "; it was killed, hangs or cannot be reached");
    }
  }
}

void Heartbeat::report(const std::string& what) {
  if (reported_.exchange(true)) return;
  // With this process the store goes, from which the others are to learn the same.
  if (holds_store_ && launch_.size > 1) std::this_thread::sleep_for(3 * interval_);
  on_lost_(what);
}

void Heartbeat::leave() {
  stop();
  if (reported_) return;
  try {
    const auto count = answer_within(launch_, timeout_, [store = store_, own = key("left", launch_.rank)] {
      store->set(own, std::vector<uint8_t>{1});
      return store->add("left/count", 1);
    });
    if (!holds_store_) return;
    const auto until = std::chrono::steady_clock::now() + timeout_;
    for (auto left = count; left < launch_.size && std::chrono::steady_clock::now() < until;
         left = store_->add("left/count", 0)) {
      std::this_thread::sleep_for(std::min(interval_, milliseconds(20)));
    }
  } catch (const std::exception&) {
    // The store has gone first, or hangs: nobody misses this rank any more.
  }
}

void Heartbeat::fail() {
  stop();
  if (reported_) return;
  try {
    answer_within(launch_, timeout_, [store = store_, rank = launch_.rank] {
      publish(*store, "rank " + std::to_string(rank) + " ended with an error");
    });
    if (holds_store_ && launch_.size > 1) std::this_thread::sleep_for(3 * interval_);
  } catch (const std::exception&) {
    // The others find this rank silent.
  }
}

void Heartbeat::suspect() {
  suspicious_ = true;
  // The silent rank's neighbour reads the suspicion a round later, and then waits; a report ends this
  // process.
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + suspicious_timeout_ + 5 * interval_;
  while (Clock::now() < until || reported_) std::this_thread::sleep_for(interval_);
}

}  // namespace stiefel::distributed
