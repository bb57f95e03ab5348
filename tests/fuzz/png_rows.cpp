#include <zlib.h>

#include <stdexcept>

#include "data/png_records.h"
#include "errors.h"
#include "memory_file.h"

// CIFAR-10 as pictures: the labels' JSON up to the first zero byte, then the PNG. Refused by
// std::runtime_error, or as many whole records as the picture has rows. libPNG checks a sum of every chunk,
// so each input is read twice: as it is, and with its sums put right.

namespace png_rows_target {

namespace fs = std::filesystem;

constexpr int64_t kMostRows = 3;

uint32_t number_at(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

/// Each chunk is a length, a name of four letters, the data and the CRC-32 of name and data.
std::string with_right_sums(std::string bytes) {
  constexpr size_t kSignature = 8, kAround = 12;
  for (size_t at = kSignature; at + kAround <= bytes.size();) {
    const size_t length = number_at(bytes, at);
    if (length > bytes.size() - at - kAround) break;
    const auto sum =
        crc32(0, reinterpret_cast<const Bytef*>(bytes.data() + at + 4), static_cast<uInt>(length + 4));
    for (size_t i = 0; i < 4; ++i) bytes[at + 8 + length + i] = static_cast<char>(sum >> (24 - 8 * i));
    at += length + kAround;
  }
  return bytes;
}

void convert(const std::string& labels, const std::string& png) {
  using namespace stiefel::data;
  SetFacts facts{};
  facts.files = {{"train.bin", Content::kCifar10, true, kMostRows, ""},
                 {"test.bin", Content::kCifar10, false, 1, ""}};
  const auto& folder = fuzz::memory_folder();
  fuzz::write(folder / "train_lables.json", labels);
  fuzz::write(folder / "train.png", png);
  fs::remove(folder / "train.bin");
  fuzz::reads<std::runtime_error>([&] { cifar_from_png(facts, folder, folder); });
  if (!fs::exists(folder / "train.bin")) return;
  const auto size = fs::file_size(folder / "train.bin");
  fuzz::require(size % 3073 == 0 && size <= kMostRows * 3073, "no whole records");
}

FUZZ_TARGET(png_rows) {
  if (!stiefel::data::has_png()) return;
  const auto labels = input.substr(0, input.find('\0'));
  input.remove_prefix(std::min(input.size(), labels.size() + 1));
  convert(std::string(labels), std::string(input));
  convert(std::string(labels), with_right_sums(std::string(input)));
}

}  // namespace png_rows_target
