#include "threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>

namespace stiefel::bench {

namespace {

int64_t hardware_threads() { return std::max(1U, std::thread::hardware_concurrency()); }

void require(int64_t count, const std::string& name) {
  if (count >= 0 && count <= most_threads()) return;
  throw std::invalid_argument(name + " is " + std::to_string(count) + "; this machine has " +
                              std::to_string(hardware_threads()) + " hardware threads, and " + name +
                              " must be from 1 to " + std::to_string(most_threads()));
}

}  // namespace

int64_t most_threads() { return std::max<int64_t>(64, 4 * hardware_threads()); }

void set_threads(int64_t chosen) {
  if (chosen != 0) {
    require(chosen, "--threads");
    at::set_num_threads(static_cast<int>(chosen));
  } else if (const char* given = std::getenv("OMP_NUM_THREADS"); given != nullptr) {
    // Not at::get_num_threads(): a LibTorch with MKL has reduced the number to the cores by now.
    require(std::strtoll(given, nullptr, 10), "OMP_NUM_THREADS");
  } else {
    at::set_num_threads(static_cast<int>(hardware_threads()));
  }
}

}  // namespace stiefel::bench
