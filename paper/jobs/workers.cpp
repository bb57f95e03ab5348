#include "workers.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>

#include "base/interrupt.h"
#include "base/printable.h"

extern char** environ;

namespace stiefel::paper {

namespace {

/// Started by posix_spawn: a plain fork hangs once LibTorch has started its threads.
pid_t start(const std::vector<std::string>& arguments, const std::filesystem::path& log) {
  std::vector<char*> words{const_cast<char*>("stiefel")};
  for (const auto& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0666);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  // A group of its own: Ctrl-C reaches us alone, and we pass it on once.
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t standard;
  sigemptyset(&standard);
  sigaddset(&standard, SIGINT);
  sigaddset(&standard, SIGTERM);
  posix_spawnattr_setsigdefault(&attributes, &standard);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
  pid_t id = 0;
  const int code = posix_spawn(&id, "/proc/self/exe", &actions, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (code != 0) {
    throw std::system_error(code, std::generic_category(), "another process of this program, for --jobs");
  }
  return id;
}

}  // namespace

Workers::Workers(int64_t count, const std::vector<std::string>& arguments,
                 const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  auto words = arguments;
  words.insert(words.end(), {kOption, std::to_string(getpid())});
  try {
    for (int64_t i = 1; i <= count; ++i) {
      const auto log = folder / fmt::format("worker-{}.log", i);
      workers_.push_back({start(words, log), log});
    }
  } catch (...) {
    end();
    throw;
  }
}

Workers::~Workers() { end(); }

void Workers::end() {
  stop(SIGTERM);
  while (left() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
}

void Workers::follow(int64_t starter) {
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != starter) raise(SIGTERM);  // it has ended before we could ask
}

int64_t Workers::left() {
  int64_t count = 0;
  for (auto& worker : workers_) {
    if (worker.id > 0 && waitpid(worker.id, &worker.status, WNOHANG) != 0) worker.id = 0;
    count += worker.id > 0 ? 1 : 0;
  }
  return count;
}

void Workers::stop(int signal) {
  for (const auto& worker : workers_) {
    if (worker.id > 0) kill(worker.id, signal);
  }
}

int Workers::finish(int signal, const std::function<void(const std::string&)>& say) {
  const base::InterruptGuard interrupts;
  if (signal != 0) stop(signal);
  for (int64_t before = 0, now = left(); now > 0; now = left()) {
    if (signal == 0 && now != before) {
      say(fmt::format("{} still {} runs; {} says which",
                      now == 1 ? "one worker" : fmt::format("{} workers", now), now == 1 ? "has" : "have",
                      base::printable(workers_.front().log.parent_path()) + "/worker-*.log"));
    }
    before = now;
    if (signal == 0 && base::InterruptGuard::signal() != 0) {
      signal = base::InterruptGuard::signal();
      stop(signal);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  for (const auto& worker : workers_) {
    const bool stopped = (WIFEXITED(worker.status) && WEXITSTATUS(worker.status) == 128 + signal) ||
                         (WIFSIGNALED(worker.status) && WTERMSIG(worker.status) == signal);
    if (worker.status != 0 && !(signal != 0 && stopped)) {
      throw std::runtime_error(fmt::format("a worker failed; see {}", base::printable(worker.log)));
    }
  }
  return signal;
}

}  // namespace stiefel::paper
