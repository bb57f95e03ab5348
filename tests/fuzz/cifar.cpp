#include "data/cifar.h"

#include <ATen/ATen.h>

#include <stdexcept>

#include "errors.h"
#include "memory_file.h"

// CIFAR's binary records, plain or gzipped. The first byte chooses CIFAR-10 or CIFAR-100; as inputs of whole
// records would be long, each byte after it stands for that many bytes of its own value. Refused by
// std::runtime_error, or as many pictures as there are records, with labels in range.

namespace cifar_target {

FUZZ_TARGET(cifar) {
  using namespace stiefel::data;
  if (input.empty()) return;
  const auto kind = input[0] % 2 == 0 ? Cifar::k10 : Cifar::k100;
  const bool repeat = static_cast<unsigned char>(input[0]) < 128;
  input.remove_prefix(1);
  constexpr int64_t kMost = 3;
  std::string bytes;
  if (repeat) {  // pairs: a length in steps of 16 bytes, or of one, and a value
    for (size_t i = 0; i + 1 < input.size() && bytes.size() < 20000; i += 2) {
      const auto length = static_cast<unsigned char>(input[i]);
      bytes.append(length < 128 ? length : 32 * (length - 128), input[i + 1]);
    }
  } else {
    bytes = input;
  }
  const fuzz::MemoryFile file(bytes);
  Images images;
  if (!fuzz::reads<std::runtime_error>([&] { images = read_cifar(file.path(), kind, kMost); })) return;
  fuzz::require(images.size() > 0 && images.size() <= kMost, "more pictures than asked for");
  fuzz::require(images.pixels.sizes() == at::IntArrayRef({images.size(), 3, 32, 32}),
                "pictures of another shape");
  const auto classes = kind == Cifar::k10 ? 10 : 100;
  fuzz::require(images.labels.min().item<int64_t>() >= 0 && images.labels.max().item<int64_t>() < classes,
                "a label out of range");
}

}  // namespace cifar_target
