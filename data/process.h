#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

// Other programs, run without a shell. They are started by posix_spawn: a plain fork hangs once LibTorch has
// started its threads.

namespace stiefel::data {

struct Command {
  std::vector<std::string> arguments;  ///< the program (looked for in $PATH) and what it is given, as it is
  std::filesystem::path folder = {};   ///< where it runs; empty: here
  /// Its standard input: fills a buffer of that size, says with how much; 0 is the end. None: /dev/null.
  std::function<int64_t(char*, int64_t)> input = {};
  int64_t most_file_bytes = 0;  ///< the size of the largest file it may write; 0: any
};

struct Outcome {
  int code;  ///< its exit code, or 128 + the signal that ended it
  std::string output;
  std::string errors;  ///< what it wrote to its standard error
};

/// Runs to the end. Throws std::system_error where the program cannot be started.
Outcome run(const Command& command);

/// The same, and returns the output. Throws std::runtime_error with what the program had to say where it
/// fails, and with `remedy` where it is not installed.
std::string must_run(const Command& command, const std::string& remedy = "");

}  // namespace stiefel::data
