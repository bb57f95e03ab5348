#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace stiefel::paper {

/// This program again, in processes of its own. Each takes runs from the same folder that no other is at, so
/// that several runs share a machine.
class Workers {
 public:
  /// The hidden option that a worker is started with; its value is the process that started it.
  static constexpr const char* kOption = "--worker";

  /// In a worker: makes sure that it is asked to stop when the process that started it ends, however it ends.
  static void follow(int64_t starter);

  /// Starts `count` of them with these arguments, the program's own name not among them, and after them the
  /// option that follow() is about. What they say is added to FOLDER/worker-1.log and so on. Throws
  /// std::system_error where one cannot be started.
  Workers(int64_t count, const std::vector<std::string>& arguments, const std::filesystem::path& folder);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  /// Asks those that are left to stop, which lets them write their checkpoints, and waits for them.
  ~Workers();

  /// Waits until all have ended. With a signal, or when one comes meanwhile, they are asked to stop first.
  /// `say` is called with how many are waited for. Returns the signal, or 0. Throws std::runtime_error naming
  /// the log of one that failed.
  int finish(int signal, const std::function<void(const std::string&)>& say);

 private:
  struct Worker {
    pid_t id;
    std::filesystem::path log;
    int status = 0;
  };
  int64_t left();
  void stop(int signal);
  void end();

  std::vector<Worker> workers_;
};

}  // namespace stiefel::paper
