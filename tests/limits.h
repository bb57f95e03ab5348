#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <string>

// What a file that claims too much may cost before it is refused.

namespace limits {

/// The most memory that this process has had, in MiB; `reset` forgets it. Negative where the system does not
/// say.
inline double peak_memory(bool reset) {
  if (reset) {
    std::ofstream file("/proc/self/clear_refs");
    if (!(file << "5" << std::flush)) return -1;
  }
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::strtod(line.c_str() + 6, nullptr) / 1024;
  }
  return -1;
}

/// Runs `read`, which must throw within the seconds and without taking more memory than that. Returns the
/// message.
template <class Read>
std::string refusal(const Read& read, double seconds, [[maybe_unused]] double mebibytes) {
  using Clock = std::chrono::steady_clock;
  [[maybe_unused]] const double before = peak_memory(true);
  const auto start = Clock::now();
  std::string message;
  try {
    read();
    ADD_FAILURE() << "it is not refused";
  } catch (const std::exception& error) {
    message = error.what();
  }
  EXPECT_LT(std::chrono::duration<double>(Clock::now() - start).count(), seconds);
#if !defined(__SANITIZE_ADDRESS__)
  if (before >= 0) {
    EXPECT_LT(peak_memory(false) - before, mebibytes);
  }
#endif
  EXPECT_LT(message.size(), 1000u) << "a message that nobody reads";
  return message;
}

}  // namespace limits
