#include "png_records.h"

#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#ifdef STIEFEL_HAS_PNG
#include <png.h>

#include "base/printable.h"
#include "byte_reader.h"
#endif

namespace stiefel::data {

namespace {

namespace fs = std::filesystem;

fs::path png_of(const FileFacts& file) { return fs::path(file.name).replace_extension(".png"); }

#ifdef STIEFEL_HAS_PNG

constexpr size_t kArea = 32 * 32;

// The package spells them so.
const char* labels_file(bool train) { return train ? "train_lables.json" : "test_lables.json"; }

/// A JSON list of numbers from 0 to 9, one for each of `most` pictures or fewer.
std::string read_labels(const fs::path& file, int64_t most) {
  ByteReader reader(file);
  // Two bytes per label are usual; a few more than there are pictures do no harm.
  const auto text = reader.rest(16 * most, "the labels of " + std::to_string(most) + " pictures");
  std::string labels;
  for (size_t i = 0; i < text.size(); ++i) {
    // [d,d,…,d]: a digit in every odd place.
    const char c = static_cast<char>(text[i]);
    const bool last = i + 1 == text.size();
    const bool good = i == 0 ? c == '[' : i % 2 == 1 ? c >= '0' && c <= '9' : c == (last ? ']' : ',');
    if (!good || (last && i % 2 == 1)) {
      throw std::runtime_error(base::printable(file) + ": byte " + std::to_string(i) +
                               ": expected a list of digits, found '" + base::printable(std::string(1, c)) +
                               "'");
    }
    if (i % 2 == 1) labels.push_back(static_cast<char>(c - '0'));
  }
  return labels;
}

struct Picture {
  std::vector<unsigned char> bytes;  // red, green, blue and alpha of each pixel
  size_t rows;
};

Picture read_png(const fs::path& file, int64_t most_rows) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  const auto fail = [&] {
    const std::string text = image.message;
    png_image_free(&image);
    throw std::runtime_error(base::printable(file) + ": is no whole PNG picture (" + text + ")");
  };
  if (png_image_begin_read_from_file(&image, file.c_str()) == 0) fail();
  // Before memory is taken for what the header announces.
  const auto refuse = [&](int byte, const std::string& expected, png_uint_32 found) {
    png_image_free(&image);
    throw std::runtime_error(base::printable(file) + ": byte " + std::to_string(byte) + ": expected " +
                             expected + ", found " + std::to_string(found));
  };
  if (image.width != kArea) refuse(16, "a width of 1024 pixels", image.width);
  if (image.height > most_rows) {
    refuse(20, "a height of " + std::to_string(most_rows) + " pixels at most", image.height);
  }
  // With its alpha channel: without it libpng would blend the picture with a background.
  image.format = PNG_FORMAT_RGBA;
  Picture picture{std::vector<unsigned char>(PNG_IMAGE_SIZE(image)), image.height};
  if (png_image_finish_read(&image, nullptr, picture.bytes.data(), 0, nullptr) == 0) fail();
  return picture;
}

void write_records(const Picture& picture, const std::string& labels, size_t first, const fs::path& file) {
  std::string bytes;
  bytes.reserve(picture.rows * (1 + 3 * kArea));
  for (size_t row = 0; row < picture.rows; ++row) {
    bytes.push_back(labels[first + row]);
    for (size_t channel = 0; channel < 3; ++channel) {
      const auto* from = picture.bytes.data() + 4 * kArea * row + channel;
      for (size_t i = 0; i < kArea; ++i) bytes.push_back(static_cast<char>(from[4 * i]));
    }
  }
  std::ofstream stream(file, std::ios::binary);
  stream << bytes;
  stream.close();
  if (!stream) throw std::runtime_error(base::printable(file) + ": cannot be written");
}

#endif

}  // namespace

bool has_png() {
#ifdef STIEFEL_HAS_PNG
  return true;
#else
  return false;
#endif
}

bool has_cifar_png(const SetFacts& facts, const fs::path& folder) {
  return facts.files.front().content == Content::kCifar10 &&
         fs::is_regular_file(folder / png_of(facts.files.front()));
}

#ifdef STIEFEL_HAS_PNG

void cifar_from_png(const SetFacts& facts, const fs::path& from, const fs::path& to) {
  for (const bool train : {true, false}) {
    int64_t most = 0;
    for (const auto& file : facts.files) most += file.train == train ? file.count : 0;
    const auto labels = read_labels(from / labels_file(train), most);
    size_t first = 0;
    for (const auto& file : facts.files) {
      if (file.train != train) continue;
      const auto picture = read_png(from / png_of(file), file.count);
      if (labels.size() - first < picture.rows) {
        throw std::runtime_error(base::printable(from / labels_file(train)) + ": expected " +
                                 std::to_string(first + picture.rows) + " labels or more, found " +
                                 std::to_string(labels.size()));
      }
      write_records(picture, labels, first, to / file.name);
      first += picture.rows;
    }
  }
}

#else

void cifar_from_png(const SetFacts&, const fs::path& from, const fs::path&) {
  throw std::runtime_error(base::printable(from) +
                           ": holds CIFAR-10 as PNG, and stiefel was built without libpng.\n"
                           "Build it again with libpng's headers (Debian: apt-get install libpng-dev), or "
                           "name the binary files with --from");
}

#endif

}  // namespace stiefel::data
