#pragma once

#include <cstdint>

namespace stiefel::bench {

/// The most threads that a program may be told to take on this machine. More than the hardware has are of no
/// use; a few times as many do no harm, so that a config of a larger machine runs on a smaller one.
int64_t most_threads();

/// LibTorch takes half of the hardware's threads unless told; our programs take all, unless --threads
/// (`chosen`, where it is not 0) or OMP_NUM_THREADS says otherwise. Throws std::invalid_argument naming the
/// number where there are more than most_threads().
void set_threads(int64_t chosen);

}  // namespace stiefel::bench
