#pragma once

#include <c10/core/Device.h>

#include <string>

namespace stiefel::train {

/// The device that `--device auto|cpu|cuda` means. Throws std::invalid_argument where there is no such
/// device.
c10::Device choose_device(const std::string& name);

}  // namespace stiefel::train
