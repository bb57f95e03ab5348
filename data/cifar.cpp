#include "cifar.h"

#include <ATen/ATen.h>

#include <array>
#include <string>

#include "byte_reader.h"

namespace stiefel::data {

namespace {

constexpr int64_t kPixels = 3 * 32 * 32;

struct Label {
  const char* name;
  int classes;
};

constexpr std::array<Label, 1> kLabels10{{{"label", 10}}};
constexpr std::array<Label, 2> kLabels100{{{"coarse label", 20}, {"fine label", 100}}};

c10::ArrayRef<Label> labels_of(Cifar kind) {
  if (kind == Cifar::k10) return kLabels10;
  return kLabels100;
}

}  // namespace

int64_t cifar_record(Cifar kind) { return static_cast<int64_t>(labels_of(kind).size()) + kPixels; }

Images read_cifar(const std::filesystem::path& file, Cifar kind, int64_t most) {
  ByteReader reader(file);
  const auto labels = labels_of(kind);
  const auto record = cifar_record(kind);
  auto bytes =
      reader.rest(most * record, std::to_string(most) + " records of " + std::to_string(record) + " bytes");
  const auto size = static_cast<int64_t>(bytes.size());
  const auto whole = "whole records of " + std::to_string(record) + " bytes";
  if (size == 0) reader.fail(0, whole, "an empty file");
  if (size % record != 0) {
    reader.fail(size, whole,
                "the end of the file " + std::to_string(size % record) + " bytes into record " +
                    std::to_string(size / record) + " (it is truncated or of another kind)");
  }
  for (int64_t start = 0; start < size; start += record) {
    for (size_t i = 0; i < labels.size(); ++i) {
      const auto byte = start + static_cast<int64_t>(i);
      const int value = bytes[static_cast<size_t>(byte)];
      if (value >= labels[i].classes) {
        reader.fail(byte, std::string("a ") + labels[i].name + " below " + std::to_string(labels[i].classes),
                    std::to_string(value));
      }
    }
  }
  const auto count = static_cast<int64_t>(labels.size());
  const auto table = at::from_blob(bytes.data(), {size / record, record}, at::kByte);
  // Both are copies: the table's memory goes with this function.
  return {table.slice(1, count).contiguous().view({-1, 3, 32, 32}), table.select(1, count - 1).to(at::kLong)};
}

}  // namespace stiefel::data
