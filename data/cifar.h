#pragma once

#include <filesystem>

#include "data/images.h"

namespace stiefel::data {

/// CIFAR-10's records carry one label, CIFAR-100's a coarse one (20 kinds) before the fine one (100).
enum class Cifar { k10, k100 };

/// Bytes a record: the labels, then 3×32×32 pixels, channel by channel.
int64_t cifar_record(Cifar kind);

/// Reads a file of CIFAR's binary layout, any whole number of records up to `most`; of CIFAR-100 the fine
/// labels. Throws std::runtime_error naming the file, the byte and what was expected where the file is
/// missing, ends within a record, has more of them, or holds a label that is out of range. The memory it
/// takes is bounded by `most`, whatever the file unpacks to.
Images read_cifar(const std::filesystem::path& file, Cifar kind, int64_t most);

}  // namespace stiefel::data
