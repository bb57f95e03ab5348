#pragma once

#include <ATen/Parallel.h>

#include <cstdlib>
#include <thread>

namespace stiefel::app {

/// LibTorch takes half of the hardware's threads unless told; we take all, unless --threads or
/// OMP_NUM_THREADS says otherwise.
inline void set_threads(int64_t chosen) {
  if (chosen > 0) {
    at::set_num_threads(static_cast<int>(chosen));
  } else if (!std::getenv("OMP_NUM_THREADS")) {
    at::set_num_threads(static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  }
}

}  // namespace stiefel::app
