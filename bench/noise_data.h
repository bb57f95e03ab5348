#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace stiefel::bench {

/// A small stand-in for a data set: random pixels in the set's own format, in a temporary folder that goes
/// with the object. For timing, where what the images show does not matter.
class NoiseData {
 public:
  /// `images` to train, at least, and a few to test.
  NoiseData(const std::string& set, int64_t images);
  NoiseData(const NoiseData&) = delete;
  NoiseData& operator=(const NoiseData&) = delete;
  ~NoiseData();

  /// For `--data-dir`.
  const std::filesystem::path& folder() const { return folder_; }

 private:
  std::filesystem::path folder_;
};

}  // namespace stiefel::bench
