#include "recurrence_choice.h"

#include <atomic>

namespace stiefel::models {

namespace {

std::atomic<RecurrenceKernel> chosen_kernel{RecurrenceKernel::kAuto};

}  // namespace

const std::vector<std::string>& recurrence_kernel_names() {
  static const std::vector<std::string> names{"auto", "row", "cluster", "stream", "operators"};
  return names;
}

RecurrenceKernel recurrence_kernel() { return chosen_kernel; }

RecurrenceKernelGuard::RecurrenceKernelGuard(RecurrenceKernel kernel)
    : before_(chosen_kernel.exchange(kernel)) {}

RecurrenceKernelGuard::~RecurrenceKernelGuard() { chosen_kernel = before_; }

}  // namespace stiefel::models
