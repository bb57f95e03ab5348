#include "local_ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <system_error>
#include <utility>

#include "base/standard_streams.h"
#include "launcher_store.h"

extern char** environ;

namespace stiefel::distributed {

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kStarter = "STIEFEL_STARTED_BY";  // the process that started a local rank

/// How long ranks have to end by themselves after one that ended with an error: all may have found the same.
constexpr auto kGrace = std::chrono::seconds(3);

[[noreturn]] void fail(int code, const std::string& what) {
  throw std::system_error(code, std::generic_category(), what);
}

/// Signals as events that poll() waits for, instead of calls from anywhere.
class SignalQueue {
 public:
  SignalQueue() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT}) sigaddset(&set, signal);
    pthread_sigmask(SIG_BLOCK, &set, &before_);
    number_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (number_ < 0) fail(errno, "signalfd");
  }
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;
  ~SignalQueue() {
    ::close(number_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  int number() const { return number_; }
  const sigset_t& before() const { return before_; }

  /// The next signal that came, or 0.
  int next() const {
    signalfd_siginfo info{};
    return ::read(number_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }

 private:
  sigset_t before_{};
  int number_ = -1;
};

/// One rank's process.
class Rank {
 public:
  Rank(int64_t rank, const std::vector<std::string>& arguments, const Environment& more, const sigset_t& mask)
      : rank_(rank) {
    std::vector<std::string> settings;
    for (char** entry = environ; *entry != nullptr; ++entry) {
      const std::string text = *entry;
      if (more.count(text.substr(0, text.find('='))) == 0) settings.push_back(text);
    }
    for (const auto& [name, value] : more) settings.push_back(name + "=" + value);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    std::array<int, 2> ends{-1, -1};
    if (rank > 0) {
      if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno, "pipe");
      posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
      posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
      posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    }
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &mask);
    // A group of its own: a terminal's Ctrl-C would reach it twice otherwise, and a second one ends it at
    // once.
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    const auto words = pointers(arguments);
    const auto variables = pointers(settings);
    const int code =
        posix_spawn(&id_, "/proc/self/exe", &actions, &attributes, words.data(), variables.data());
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (ends[1] >= 0) ::close(ends[1]);
    errors_ = ends[0];
    if (errors_ >= 0) fcntl(errors_, F_SETFL, O_NONBLOCK);
    if (code != 0) {
      id_ = -1;
      fail(code, "rank " + std::to_string(rank) + " cannot be started");
    }
  }
  Rank(Rank&& other) noexcept
      : rank_(other.rank_),
        id_(std::exchange(other.id_, -1)),
        errors_(std::exchange(other.errors_, -1)),
        line_(std::move(other.line_)),
        status_(other.status_) {}
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;
  ~Rank() {
    if (running()) {
      send(SIGKILL);
      ::waitpid(id_, &status_, 0);
    }
    if (errors_ >= 0) ::close(errors_);
  }

  int64_t number() const { return rank_; }
  int errors() const { return errors_; }
  bool running() const { return id_ > 0; }
  void send(int signal) const {
    if (running()) ::kill(id_, signal);
  }

  /// Whether it has ended since the last look.
  bool has_ended() {
    if (!running() || ::waitpid(id_, &status_, WNOHANG) != id_) return false;
    id_ = -1;
    return true;
  }
  int ending_signal() const { return WIFSIGNALED(status_) ? WTERMSIG(status_) : 0; }
  int exit_status() const { return WIFSIGNALED(status_) ? 128 + WTERMSIG(status_) : WEXITSTATUS(status_); }

  /// Shows what it has written to its error stream, line by line.
  void show_errors() {
    if (errors_ < 0) return;
    std::array<char, 4096> buffer{};
    ssize_t got = 0;
    while ((got = ::read(errors_, buffer.data(), buffer.size())) > 0) {
      for (ssize_t i = 0; i < got; ++i) {
        if (buffer[static_cast<size_t>(i)] == '\n') {
          show_line();
        } else {
          line_ += buffer[static_cast<size_t>(i)];
        }
      }
    }
    if (got == 0 || !running()) {
      if (!line_.empty()) show_line();
      ::close(errors_);
      errors_ = -1;
    }
  }

 private:
  static std::vector<char*> pointers(const std::vector<std::string>& texts) {
    std::vector<char*> all;
    for (const auto& text : texts) all.push_back(const_cast<char*>(text.c_str()));
    all.push_back(nullptr);
    return all;
  }

  void show_line() {
    const auto prefix = "rank " + std::to_string(rank_) + ": ";
    base::say(line_.compare(0, prefix.size(), prefix) == 0 ? line_ : prefix + line_);
    line_.clear();
  }

  int64_t rank_;
  pid_t id_ = -1;
  int errors_ = -1;  ///< where its error stream is read; -1 for rank 0, which has ours
  std::string line_;
  int status_ = 0;
};

class Supervisor {
 public:
  Supervisor(int64_t count, const std::vector<std::string>& arguments, const Environment& more) {
    for (int64_t rank = 0; rank < count; ++rank) {
      auto variables = more;
      for (const auto& [name, value] : variables_of(store_.launch(rank, count))) variables[name] = value;
      variables["LOCAL_WORLD_SIZE"] = std::to_string(count);
      variables[kStarter] = std::to_string(::getpid());
      ranks_.emplace_back(rank, arguments, variables, signals_.before());
    }
  }

  LocalOutcome run() {
    while (any_running()) {
      wait();
      while (const int signal = signals_.next()) pass_on(signal);
      for (auto& rank : ranks_) {
        rank.show_errors();
        if (rank.has_ended()) note_end(rank);
      }
      if (deadline_ && Clock::now() > *deadline_) end_others();
    }
    for (auto& rank : ranks_) rank.show_errors();
    return outcome();
  }

 private:
  bool any_running() const {
    for (const auto& rank : ranks_) {
      if (rank.running()) return true;
    }
    return false;
  }

  void wait() const {
    std::vector<pollfd> events{{signals_.number(), POLLIN, 0}};
    for (const auto& rank : ranks_) events.push_back({rank.errors(), POLLIN, 0});
    ::poll(events.data(), events.size(), deadline_ ? 50 : 1000);
  }

  void pass_on(int signal) {
    if (signal == SIGCHLD) return;
    if (signal == SIGTSTP) {
      for (const auto& rank : ranks_) rank.send(SIGSTOP);
      ::raise(SIGSTOP);
      return;
    }
    if (signal != SIGCONT) passed_on_ = signal;
    for (const auto& rank : ranks_) rank.send(signal);
  }

  void note_end(const Rank& rank) {
    const int status = rank.exit_status();
    if (status == 0 || (passed_on_ != 0 && rank.ending_signal() == 0 && status == 128 + passed_on_)) return;
    if (first_) return;
    first_ = &rank;
    if (rank.ending_signal() != 0) {
      end_others();
    } else {
      deadline_ = Clock::now() + kGrace;
    }
  }

  void end_others() {
    for (const auto& rank : ranks_) {
      ended_others_ = ended_others_ || rank.running();
      rank.send(SIGKILL);
    }
    deadline_.reset();
  }

  LocalOutcome outcome() {
    if (!first_) return {passed_on_ == 0 ? 0 : exit_status_of_all(), all_succeeded() ? 0 : passed_on_, {}};
    const int signal = first_->ending_signal();
    // A rank that had not come so far as to stop by itself.
    if (signal != 0 && signal == passed_on_) return {128 + signal, signal, {}};
    const auto name = "rank " + std::to_string(first_->number());
    if (signal != 0) {
      return {EXIT_FAILURE, 0,
              name + " was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")"};
    }
    if (const auto lost = store_.lost(); !lost.empty()) return {first_->exit_status(), 0, lost};
    // Where all ended alike, they have said why.
    if (!ended_others_) return {first_->exit_status(), 0, {}};
    return {first_->exit_status(), 0,
            name + " ended with exit status " + std::to_string(first_->exit_status())};
  }

  bool all_succeeded() const { return exit_status_of_all() == 0; }

  /// The first that is not 0, or 0.
  int exit_status_of_all() const {
    for (const auto& rank : ranks_) {
      if (rank.exit_status() != 0) return rank.exit_status();
    }
    return 0;
  }

  SignalQueue signals_;  ///< first, so that the store's threads leave signals alone
  LauncherStore store_;
  std::vector<Rank> ranks_;
  int passed_on_ = 0;            ///< the signal that asked all ranks to stop
  const Rank* first_ = nullptr;  ///< the first that ended with an error
  bool ended_others_ = false;
  std::optional<Clock::time_point> deadline_;
};

}  // namespace

LocalOutcome run_local_ranks(int64_t count, const std::vector<std::string>& arguments,
                             const Environment& more) {
  return Supervisor(count, arguments, more).run();
}

bool is_local_rank() {
  const char* starter = std::getenv(kStarter);
  return starter != nullptr && starter == std::to_string(::getppid());
}

}  // namespace stiefel::distributed
