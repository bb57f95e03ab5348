#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "data/catalog.h"
#include "tests/scratch.h"

// What the tests of the data module share: small files in the real formats, a folder to put them in, and an
// environment that goes back to what it was.

namespace support {

namespace fs = std::filesystem;

inline std::string big_endian(int64_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>((value >> shift) & 255));
  return bytes;
}

/// Bytes that look random and are the same every time.
inline std::string noise(int64_t size, uint32_t seed) {
  std::string bytes;
  for (int64_t i = 0; i < size; ++i) {
    seed = seed * 1664525U + 1013904223U;
    bytes.push_back(static_cast<char>(seed >> 24));
  }
  return bytes;
}

inline std::string idx_images(int64_t count, int64_t side = 28, uint32_t seed = 1) {
  return std::string{'\0', '\0', '\x08', '\x03'} + big_endian(count) + big_endian(side) + big_endian(side) +
         noise(count * side * side, seed);
}

inline std::string idx_labels(int64_t count, int64_t classes = 10) {
  std::string bytes = std::string{'\0', '\0', '\x08', '\x01'} + big_endian(count);
  for (int64_t i = 0; i < count; ++i) bytes.push_back(static_cast<char>(i % classes));
  return bytes;
}

inline std::string cifar10_records(int64_t count, uint32_t seed = 1) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(i % 10));
    bytes += noise(3072, seed + static_cast<uint32_t>(i));
  }
  return bytes;
}

inline std::string cifar100_records(int64_t count, uint32_t seed = 1) {
  std::string bytes;
  for (int64_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(i % 20));
    bytes.push_back(static_cast<char>(i % 100));
    bytes += noise(3072, seed + static_cast<uint32_t>(i));
  }
  return bytes;
}

inline fs::path write(const fs::path& file, const std::string& bytes) {
  fs::create_directories(file.parent_path());
  std::ofstream stream(file, std::ios::binary);
  stream << bytes;
  return file;
}

inline std::string contents(const fs::path& file) {
  std::ostringstream bytes;
  bytes << std::ifstream(file, std::ios::binary).rdbuf();
  return bytes.str();
}

/// A data set of a few images in a folder, complete: `count` training and `count` test images a file.
inline void write_set(const std::string& name, const fs::path& folder, int64_t count = 12,
                      uint32_t seed = 1) {
  using stiefel::data::Content;
  for (const auto& file : stiefel::data::facts_of(name).files) {
    const bool images = file.content == Content::kIdxImages;
    const bool labels = file.content == Content::kIdxLabels;
    const bool ten = file.content == Content::kCifar10;
    write(folder / file.name, images   ? idx_images(count, 28, seed)
                              : labels ? idx_labels(count)
                              : ten    ? cifar10_records(count, seed)
                                       : cifar100_records(count, seed));
    seed += 1000;
  }
}

/// The message of the exception that `act` throws; "" where it throws none.
template <class Act>
std::string message_of(Act act) {
  try {
    act();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

/// An environment variable for the length of a scope; no value removes it.
class Variable {
 public:
  Variable(const std::string& name, const std::optional<std::string>& value) : name_(name) {
    if (const char* old = std::getenv(name.c_str())) old_ = old;
    set(value);
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { set(old_); }

 private:
  void set(const std::optional<std::string>& value) {
    value ? setenv(name_.c_str(), value->c_str(), 1) : unsetenv(name_.c_str());
  }

  std::string name_;
  std::optional<std::string> old_;
};

/// Each test has an empty folder of its own, and an environment in which no data set of the user's is seen.
class DataTest : public scratch::Test {
 protected:
  void SetUp() override {
    data_.emplace("STIEFEL_DATA", std::nullopt);
    cache_.emplace("XDG_CACHE_HOME", (folder_ / "xdg").string());
  }

 private:
  std::optional<Variable> data_, cache_;
};

}  // namespace support

/// Expects that `statement` throws and that the message holds `part`.
#define EXPECT_MESSAGE(statement, part)                                         \
  do {                                                                          \
    const auto message = support::message_of([&] { statement; });               \
    EXPECT_NE(message.find(part), std::string::npos) << "message: " << message; \
  } while (false)
