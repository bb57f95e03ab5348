#include "capture.h"

// For a LibTorch without CUDA, where nothing is captured; cuda/capture.cpp takes its place elsewhere.

namespace stiefel::detail {

bool is_capturing(const c10::Device&) { return false; }

}  // namespace stiefel::detail
