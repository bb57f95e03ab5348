#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

// What this process holds of the system, from Linux's /proc.

namespace soak {

/// Bytes of memory that are resident.
inline int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * ::sysconf(_SC_PAGESIZE);
}

/// Files, sockets and pipes that are open.
inline int64_t open_handles() {
  const std::filesystem::directory_iterator entries("/proc/self/fd");
  return std::distance(begin(entries), end(entries)) - 1;  // one is the listing's own
}

}  // namespace soak
