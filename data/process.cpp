#include "process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <system_error>

extern char** environ;

namespace stiefel::data {

namespace {

[[noreturn]] void fail(int code, const std::string& what) {
  throw std::system_error(code, std::generic_category(), what);
}

class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.number_) { other.number_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }
  int number() const { return number_; }
  bool open() const { return number_ >= 0; }

 private:
  int number_ = -1;
};

struct Ends {
  Descriptor ours;
  Descriptor childs;
};

/// All are close-on-exec, so that no other child holds them open.
Ends output_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno, "pipe");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// A socket where a pipe would do, because writing to it can be told not to raise SIGPIPE.
Ends input_socket() {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) fail(errno, "socketpair");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// What posix_spawn is told beyond the arguments.
class Setting {
 public:
  Setting() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    // Signals as a fresh program expects them, whatever ours are.
    sigset_t none, standard;
    sigemptyset(&none);
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
};

/// A child that is always waited for, also where feeding it throws: then it finds its pipes closed.
class Child {
 public:
  explicit Child(const Command& command) {
    auto in =
        command.input ? input_socket() : Ends{{}, Descriptor(::open("/dev/null", O_RDONLY | O_CLOEXEC))};
    auto out = output_pipe();
    auto err = output_pipe();
    Setting setting;
    if (!command.folder.empty())
      posix_spawn_file_actions_addchdir_np(&setting.actions, command.folder.c_str());
    posix_spawn_file_actions_adddup2(&setting.actions, in.childs.number(), STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&setting.actions, out.childs.number(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&setting.actions, err.childs.number(), STDERR_FILENO);
    std::vector<char*> arguments;
    for (const auto& argument : command.arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    const int code =
        posix_spawnp(&id_, arguments[0], &setting.actions, &setting.attributes, arguments.data(), environ);
    if (code != 0) {
      id_ = -1;
      fail(code, command.arguments[0] + ": cannot be run");
    }
    if (command.most_file_bytes > 0) {
      const auto most = static_cast<rlim_t>(command.most_file_bytes);
      const rlimit limit{most, most};
      prlimit(id_, RLIMIT_FSIZE, &limit, nullptr);  // fails only where the child has ended already
    }
    input = std::move(in.ours);
    output = std::move(out.ours);
    errors = std::move(err.ours);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() {
    if (id_ > 0) wait();
  }

  int wait() {
    input.close();
    output.close();
    errors.close();
    int status = 0;
    while (waitpid(id_, &status, 0) < 0) {
      if (errno != EINTR) fail(errno, "waitpid");
    }
    id_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  Descriptor input, output, errors;

 private:
  pid_t id_ = -1;
};

void take(Descriptor& from, std::string& to) {
  std::array<char, 1 << 14> buffer{};
  const auto got = ::read(from.number(), buffer.data(), buffer.size());
  if (got > 0) to.append(buffer.data(), static_cast<size_t>(got));
  if (got == 0 || (got < 0 && errno != EINTR)) from.close();
}

/// What is on its way to a child's standard input.
class Feed {
 public:
  explicit Feed(const std::function<int64_t(char*, int64_t)>& source) : source_(source), buffer_(1 << 18) {}

  void give(Descriptor& to) {
    if (from_ == to_) {
      from_ = 0;
      to_ = source_(buffer_.data(), static_cast<int64_t>(buffer_.size()));
      if (to_ == 0) return to.close();
    }
    const auto sent = ::send(to.number(), buffer_.data() + from_, static_cast<size_t>(to_ - from_),
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) from_ += sent;
    // A child that reads no more has had enough; whether that was right, its exit code says.
    if (sent < 0 && errno != EINTR && errno != EAGAIN) to.close();
  }

 private:
  const std::function<int64_t(char*, int64_t)>& source_;
  std::vector<char> buffer_;
  int64_t from_ = 0, to_ = 0;
};

std::string tail_of(std::string text) {
  constexpr size_t most = 4000;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.size() > most ? "…" + text.substr(text.size() - most) : text;
}

}  // namespace

Outcome run(const Command& command) {
  Child child(command);
  Feed feed(command.input);
  Outcome outcome{};
  while (child.input.open() || child.output.open() || child.errors.open()) {
    // poll ignores those that are closed, whose number is negative.
    std::array<pollfd, 3> wait{{{child.input.number(), POLLOUT, 0},
                                {child.output.number(), POLLIN, 0},
                                {child.errors.number(), POLLIN, 0}}};
    if (poll(wait.data(), wait.size(), -1) < 0) {
      if (errno == EINTR) continue;
      fail(errno, "poll");
    }
    if (wait[0].revents != 0) feed.give(child.input);
    if (wait[1].revents != 0) take(child.output, outcome.output);
    if (wait[2].revents != 0) take(child.errors, outcome.errors);
  }
  outcome.code = child.wait();
  return outcome;
}

std::string must_run(const Command& command, const std::string& remedy) {
  Outcome outcome{};
  try {
    outcome = run(command);
  } catch (const std::system_error& error) {
    const bool absent = error.code().value() == ENOENT && !remedy.empty();
    throw std::runtime_error(error.what() + (absent ? "\n" + remedy : ""));
  }
  if (outcome.code == 0) return outcome.output;
  std::string text;
  for (const auto& argument : command.arguments) text += (text.empty() ? "" : " ") + argument;
  text += outcome.code == 128 + SIGXFSZ
              ? ": stopped at a file of more than " + std::to_string(command.most_file_bytes) + " bytes"
          : outcome.code > 128 ? ": ended by signal " + std::to_string(outcome.code - 128)
                               : ": failed with exit code " + std::to_string(outcome.code);
  const auto said = tail_of(outcome.errors.empty() ? outcome.output : outcome.errors);
  throw std::runtime_error(text + (said.empty() ? "" : "\n" + said));
}

}  // namespace stiefel::data
