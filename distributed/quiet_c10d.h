#pragma once

#include <c10/util/Logging.h>

#include <cstdlib>

namespace stiefel::distributed {

/// While it exists, c10d writes no warnings and errors of its own to the error stream: for work whose
/// failures are all thrown, and reported with cause and remedy. TORCH_CPP_LOG_LEVEL, where it is set, decides
/// instead.
class QuietC10d {
 public:
  QuietC10d() {
    if (is_chosen_) {
      c10::initLogging();  // which reads it; LibTorch does so in Python alone
    } else {
      FLAGS_caffe2_log_level = kFatal;
    }
  }
  ~QuietC10d() {
    if (!is_chosen_) FLAGS_caffe2_log_level = before_;
  }
  QuietC10d(const QuietC10d&) = delete;
  QuietC10d& operator=(const QuietC10d&) = delete;

 private:
  static constexpr int kFatal = 3;  // after informations, warnings and errors

  bool is_chosen_ = std::getenv("TORCH_CPP_LOG_LEVEL") != nullptr;
  int before_ = FLAGS_caffe2_log_level;
};

}  // namespace stiefel::distributed
