#include "smoke_data.h"

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "base/files.h"
#include "base/folder_lock.h"
#include "base/printable.h"
#include "data/byte_reader.h"
#include "data/catalog.h"
#include "data/places.h"

namespace stiefel::paper {

namespace fs = std::filesystem;

namespace {

uint32_t big_endian(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

/// The first `count` records of a file, or all where it has fewer.
std::string first_records(const fs::path& file, data::Content content, int64_t count) {
  data::ByteReader reader(file);
  std::string header;
  const auto size = data::item_bytes(content);
  if (content == data::Content::kIdxImages || content == data::Content::kIdxLabels) {
    // IDX: two zero bytes, the type, the number of dimensions, then each as four bytes, highest first.
    header.resize(content == data::Content::kIdxImages ? 16 : 8);
    reader.read(header.data(), static_cast<int64_t>(header.size()), "the header of an IDX file");
    for (size_t at = 8; at < header.size(); at += 4) {
      // Before memory is taken for what the header announces.
      if (const auto side = big_endian(header, at); side != 28)
        reader.fail(static_cast<int64_t>(at), "28 pixels", std::to_string(side));
    }
    count = std::min<int64_t>(count, big_endian(header, 4));
    for (size_t i = 0; i < 4; ++i) header[4 + i] = static_cast<char>(count >> (24 - 8 * i) & 0xFF);
  }
  std::string body(static_cast<size_t>(count * size), '\0');
  int64_t have = 0;
  while (have < count * size) {
    const auto read = reader.read_some(body.data() + have, count * size - have);
    if (read == 0) break;
    have += read;
  }
  body.resize(static_cast<size_t>(have));
  return header + body;
}

}  // namespace

void provide_smoke_data(const std::string& set, const fs::path& data_dir, const fs::path& target) {
  const auto& facts = data::facts_of(set);
  const auto folder = target / facts.folders.front();
  const auto is_there = [&](const data::FileFacts& file) { return fs::exists(folder / file.name); };
  const auto all_there = [&] { return std::all_of(facts.files.begin(), facts.files.end(), is_there); };
  if (all_there()) return;
  const auto source = data::locate(facts, data_dir);
  fs::create_directories(folder);
  const auto lock = base::FolderLock::take(folder);
  if (all_there()) return;  // another command was quicker
  for (const auto& file : facts.files) {
    const auto alike = std::count_if(facts.files.begin(), facts.files.end(), [&](const auto& other) {
      return other.train == file.train && other.content == file.content;
    });
    const int64_t count = (file.train ? kSmokeTrain : kSmokeTest) / alike;
    const auto found = data::find_file(source, file.name);
    if (!found) throw std::runtime_error(base::printable(source) + " lacks " + file.name);
    base::write_file(folder / file.name, first_records(*found, file.content, count));
  }
}

}  // namespace stiefel::paper
