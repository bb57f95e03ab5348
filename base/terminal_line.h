#pragma once

#include <chrono>
#include <cstdio>
#include <string>

namespace stiefel::base {

/// The last line of a terminal, which is overwritten, and lines above it that stay. Where the stream is no
/// terminal, only lines that stay are written. Nothing here throws: where a stream is full or its terminal is
/// gone, the work goes on.
class TerminalLine {
 public:
  using Interval = std::chrono::milliseconds;

  /// `stream` is not owned.
  explicit TerminalLine(std::FILE* stream);

  bool is_terminal() const { return terminal_; }

  /// Whether the interval has passed since this was last true; the first time it is.
  bool is_due(Interval interval);

  /// Overwrites the line, cut where the terminal ends: a longer one would leave its beginning behind.
  void show(const std::string& text);

  /// Removes the line.
  void clear();

  /// Removes the line and writes one that stays.
  void print(const std::string& line);

 private:
  void write(const std::string& text);

  std::FILE* stream_;
  bool terminal_;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace stiefel::base
