#include "idx.h"

#include <ATen/ATen.h>

#include <array>
#include <string>
#include <vector>

#include "byte_reader.h"

// The format: two zero bytes, the type (8: unsigned byte), the number of dimensions, each dimension as a
// big-endian 32-bit integer, then the data, row-major.

namespace stiefel::data {

namespace {

constexpr int kUnsignedByte = 8;

}  // namespace

at::Tensor read_idx(const std::filesystem::path& file, const IdxItems& items) {
  ByteReader reader(file);
  std::array<unsigned char, 4> magic{};
  reader.read(magic.data(), magic.size(), "an IDX header");
  if (magic[0] != 0 || magic[1] != 0)
    reader.fail(0, "two zero bytes, which begin an IDX file", "other values");
  if (magic[2] != kUnsignedByte) {
    reader.fail(2, "type 8 (unsigned bytes)", "type " + std::to_string(magic[2]));
  }
  const auto dimensions = 1 + items.each.size();
  if (magic[3] != dimensions) {
    reader.fail(
        3,
        std::to_string(dimensions) + (dimensions == 1 ? " dimension (" : " dimensions (") + items.name + ")",
        std::to_string(magic[3]));
  }

  std::vector<int64_t> shape;
  int64_t elements = 1;
  for (size_t i = 0; i < dimensions; ++i) {
    std::array<unsigned char, 4> bytes{};
    const auto place = reader.at();
    reader.read(bytes.data(), bytes.size(), "a dimension");
    const int64_t size = (int64_t{bytes[0]} << 24) | (bytes[1] << 16) | (bytes[2] << 8) | bytes[3];
    if (i == 0 && (size == 0 || size > items.most)) {
      reader.fail(place, "1 to " + std::to_string(items.most) + " " + items.name, std::to_string(size));
    }
    if (i > 0 && size != items.each[i - 1]) {
      reader.fail(place, std::to_string(items.each[i - 1]) + " pixels", std::to_string(size));
    }
    elements *= size;
    shape.push_back(size);
  }
  auto result = at::empty(shape, at::kByte);
  reader.read(result.data_ptr(), elements, std::to_string(elements) + " bytes of data");
  reader.expect_end();
  return result;
}

}  // namespace stiefel::data
