#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "distributed/join.h"
#include "distributed/launcher_store.h"

extern char** environ;

/// Tests with several processes. A test that calls on_ranks() is run again by each of them: this program is
/// started once per rank, with a filter that chooses the same test.
namespace stiefel::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::chrono::seconds kRankLimit(900);
#else
constexpr std::chrono::seconds kRankLimit(120);
#endif

/// A process that is ended at the latest when this object is.
class ChildProcess {
 public:
  ChildProcess(const std::vector<std::string>& arguments, const distributed::Environment& more) {
    std::vector<std::string> variables;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (more.count(text.substr(0, text.find('='))) == 0) variables.push_back(text);
    }
    for (const auto& [name, value] : more) variables.push_back(name + "=" + value);
    const auto pointers = [](const std::vector<std::string>& texts) {
      std::vector<char*> all;
      for (const auto& text : texts) all.push_back(const_cast<char*>(text.c_str()));
      all.push_back(nullptr);
      return all;
    };
    const auto words = pointers(arguments);
    const auto settings = pointers(variables);
    if (posix_spawn(&id_, words[0], nullptr, nullptr, words.data(), settings.data()) != 0) id_ = -1;
  }
  ChildProcess(ChildProcess&& other) noexcept : id_(std::exchange(other.id_, -1)) {}
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess() {
    if (id_ < 0) return;
    ::kill(id_, SIGKILL);
    ::waitpid(id_, nullptr, 0);
  }

  void send(int signal) const { ::kill(id_, signal); }

  /// Its exit status, or minus the signal that ended it; it is killed after the limit.
  int wait(std::chrono::seconds limit = kRankLimit) {
    const auto until = std::chrono::steady_clock::now() + limit;
    int status = 0;
    while (::waitpid(id_, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > until) ::kill(id_, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    id_ = -1;
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }

 private:
  pid_t id_ = -1;
};

/// The rank that this process is of a test that runs on several, or none in the process that started them.
inline std::optional<distributed::Launch> rank_of_test() {
  if (std::getenv("STIEFEL_TEST_RANKS") == nullptr) return {};
  return distributed::read_launch(distributed::launch_variables());
}

/// Starts the ranks of the test that is running, as processes of this program.
class TestRanks {
 public:
  /// `own_store`: the store is rank 0's, not that of the process that starts them.
  explicit TestRanks(int64_t size, const distributed::Environment& more = {}, bool own_store = false) {
    std::optional<distributed::LauncherStore> free_port;
    if (!own_store) store_.emplace();
    if (own_store) free_port.emplace();
    const auto launch_of = [&](int64_t rank) {
      auto launch = (own_store ? free_port : store_)->launch(rank, size);
      launch.launcher_store = !own_store;
      return launch;
    };
    std::vector<distributed::Launch> launches;
    for (int64_t rank = 0; rank < size; ++rank) launches.push_back(launch_of(rank));
    free_port.reset();
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    const auto filter = std::string("--gtest_filter=") + test->test_suite_name() + "." + test->name();
    for (const auto& launch : launches) {
      auto variables = distributed::variables_of(launch);
      variables.insert(more.begin(), more.end());
      variables["STIEFEL_TEST_RANKS"] = "1";
      variables["OMP_NUM_THREADS"] = "1";
      ranks_.emplace_back(std::vector<std::string>{"/proc/self/exe", filter, "--gtest_brief=1"}, variables);
    }
  }

  ChildProcess& operator[](int64_t rank) { return ranks_.at(rank); }

  void expect_success() {
    for (size_t rank = 0; rank < ranks_.size(); ++rank) EXPECT_EQ(ranks_[rank].wait(), 0) << "rank " << rank;
  }

 private:
  std::optional<distributed::LauncherStore> store_;
  std::vector<ChildProcess> ranks_;
};

/// Runs `body` on every one of `size` connected ranks, each a process of its own.
inline void on_ranks(int64_t size, const std::function<void(distributed::World&)>& body) {
  if (const auto launch = rank_of_test()) {
    distributed::JoinOptions options;
    options.backend = "gloo";
    const auto world = distributed::join(*launch, options);
    body(*world);
    world->barrier();
  } else {
    TestRanks(size).expect_success();
  }
}

}  // namespace stiefel::test
