#include "noise_data.h"

#include <stdlib.h>

#include <algorithm>
#include <random>
#include <stdexcept>

#include "base/files.h"
#include "data/catalog.h"

namespace stiefel::bench {

namespace fs = std::filesystem;
using data::Content;

namespace {

constexpr int64_t kTestImages = 10;

/// The header of an IDX file: two zero bytes, the type, the number of dimensions, then each as four bytes,
/// highest first.
std::string idx_header(Content content, int64_t count) {
  std::string header{'\0', '\0', '\x08', content == Content::kIdxImages ? '\x03' : '\x01'};
  const auto append = [&](int64_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) header.push_back(static_cast<char>(value >> shift & 0xFF));
  };
  append(count);
  if (content == Content::kIdxImages) {
    append(28);
    append(28);
  }
  return header;
}

std::string noise_records(Content content, int64_t classes, int64_t count, std::mt19937& random) {
  std::uniform_int_distribution<int> byte(0, 255);
  const bool idx = content == Content::kIdxImages || content == Content::kIdxLabels;
  auto bytes = idx ? idx_header(content, count) : std::string();
  for (int64_t i = 0; i < count; ++i) {
    const auto label = static_cast<char>(i % classes);
    const auto end = bytes.size() + static_cast<size_t>(data::item_bytes(content));
    if (content == Content::kCifar100) bytes.push_back(static_cast<char>(i % 20));  // the coarse label
    if (content != Content::kIdxImages) bytes.push_back(label);
    while (bytes.size() < end) bytes.push_back(static_cast<char>(byte(random)));
  }
  return bytes;
}

}  // namespace

NoiseData::NoiseData(const std::string& set, int64_t images) {
  const auto& facts = data::facts_of(set);
  auto pattern = (fs::temp_directory_path() / "stiefel_noise_XXXXXX").string();
  if (::mkdtemp(pattern.data()) == nullptr) {
    throw std::runtime_error(pattern +
                             ": no temporary folder can be made there; set TMPDIR to another place");
  }
  folder_ = pattern;
  try {
    const auto target = folder_ / facts.folders.front();
    fs::create_directories(target);
    std::mt19937 random(1);
    for (const auto& file : facts.files) {
      const auto parts = std::count_if(facts.files.begin(), facts.files.end(), [&](const auto& other) {
        return other.train == file.train && other.content == file.content;
      });
      const auto count = ((file.train ? images : kTestImages) + parts - 1) / parts;
      base::write_file(target / file.name, noise_records(file.content, facts.classes, count, random));
    }
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
    throw;
  }
}

NoiseData::~NoiseData() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

}  // namespace stiefel::bench
