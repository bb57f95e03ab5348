#pragma once

#include <string>
#include <vector>

namespace stiefel::models {

/// Which kernels a recurrence takes on a GPU. `kAuto` is the fastest that take its size on the card; the
/// others are for tests and benchmarks, and an error where the card or the size is not theirs.
enum class RecurrenceKernel {
  kAuto,
  kRow,        ///< a block per row of the batch, up to 128 units
  kCluster,    ///< a cluster of blocks per few rows, up to 512 units on Hopper
  kStream,     ///< a block per few rows, K read in every step, 64 to 1024 units
  kOperators,  ///< LibTorch's operators, of any size
};

/// The names for a command line, in the order of the enumeration.
const std::vector<std::string>& recurrence_kernel_names();

/// The one that all threads of the process take now.
RecurrenceKernel recurrence_kernel();

/// Chooses kernels for as long as it lives. Of the process, not of the thread: backward passes run in threads
/// of LibTorch's.
class RecurrenceKernelGuard {
 public:
  explicit RecurrenceKernelGuard(RecurrenceKernel kernel);
  ~RecurrenceKernelGuard();
  RecurrenceKernelGuard(const RecurrenceKernelGuard&) = delete;
  RecurrenceKernelGuard& operator=(const RecurrenceKernelGuard&) = delete;

 private:
  RecurrenceKernel before_;
};

}  // namespace stiefel::models
