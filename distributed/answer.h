#pragma once

#include <chrono>
#include <future>
#include <stdexcept>
#include <thread>
#include <utility>

#include "launch.h"
#include "running_time.h"

namespace stiefel::distributed {

/// The store, or what has its place, has not answered in time.
struct NoAnswer : std::runtime_error {
  NoAnswer(const Launch& launch, std::chrono::milliseconds waited);
};

/// Returns what `ask` returns, which asks the store of a launch. Throws NoAnswer where that takes longer than
/// the limit: c10d waits without one for a store that is stopped, and for another program that has the port
/// and says nothing. Then a thread that waits stays behind, so `ask` owns what it uses.
template <class Ask>
auto answer_within(const Launch& launch, std::chrono::milliseconds limit, Ask ask) -> decltype(ask()) {
  constexpr std::chrono::milliseconds pause(100);
  std::packaged_task<decltype(ask())()> question(std::move(ask));
  auto answer = question.get_future();
  std::thread thread(std::move(question));
  RunningTime time(pause);
  std::chrono::milliseconds waited(0);
  while (answer.wait_for(std::min(pause, limit)) != std::future_status::ready) {
    waited += time.since_last_look();
    if (waited < limit) continue;
    thread.detach();
    throw NoAnswer(launch, waited);
  }
  thread.join();
  return answer.get();
}

}  // namespace stiefel::distributed
