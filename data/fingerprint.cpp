#include "fingerprint.h"

#include <ATen/ATen.h>
#include <zlib.h>

#include <algorithm>

#include "data/dataset.h"

namespace stiefel::data {

uint32_t checksum_of(const at::Tensor& tensor) {
  const auto plain = tensor.contiguous();
  const auto* bytes = static_cast<const Bytef*>(plain.data_ptr());
  auto crc = crc32(0L, Z_NULL, 0);
  // zlib takes lengths of 32 bits.
  for (size_t left = plain.nbytes(); left > 0;) {
    const auto piece = std::min<size_t>(left, 1u << 30);
    crc = crc32(crc, bytes, static_cast<uInt>(piece));
    bytes += piece;
    left -= piece;
  }
  return static_cast<uint32_t>(crc);
}

namespace {

Fingerprint::Part part_of(const Images& images) {
  return {images.size(), checksum_of(images.pixels), checksum_of(images.labels)};
}

void compare(const Fingerprint::Part& before, const Fingerprint::Part& now, const std::string& name,
             std::vector<std::string>& found) {
  if (before.images != now.images) {
    found.push_back(std::to_string(now.images) + " " + name + " images instead of " +
                    std::to_string(before.images));
    return;
  }
  if (before.pixels != now.pixels) found.push_back("other " + name + " images");
  if (before.labels != now.labels) found.push_back("other " + name + " labels");
}

}  // namespace

Fingerprint fingerprint_of(const Dataset& dataset) { return {part_of(dataset.train), part_of(dataset.test)}; }

std::vector<std::string> changes(const Fingerprint& before, const Fingerprint& now) {
  std::vector<std::string> found;
  compare(before.train, now.train, "training", found);
  compare(before.test, now.test, "test", found);
  return found;
}

}  // namespace stiefel::data
