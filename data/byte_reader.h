#pragma once

#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace stiefel::data {

/// Reads a file from its beginning to its end, uncompressing it where it is gzipped, so that a data set may
/// lie on disk either way. All positions are those of the uncompressed bytes. Every failure is a
/// std::runtime_error that names the file, the byte and what was expected there.
class ByteReader {
 public:
  explicit ByteReader(const std::filesystem::path& file);

  /// Exactly `bytes` bytes; `what` says what they are.
  void read(void* to, int64_t bytes, const std::string& what);

  /// At most `most` bytes; 0 at the end of the file only.
  int64_t read_some(void* to, int64_t most);

  /// All that is left. Fails once that is more than `most` bytes, of which `what` says what they are: a file
  /// of a few megabytes may unpack to more than the memory.
  std::vector<unsigned char> rest(int64_t most, const std::string& what);

  void expect_end();

  [[noreturn]] void fail(int64_t byte, const std::string& expected, const std::string& found) const;

  int64_t at() const { return at_; }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  int64_t piece(void* to, int64_t most, const std::string& what);

  std::string name_;
  std::unique_ptr<gzFile_s, Close> file_;
  int64_t at_ = 0;
};

}  // namespace stiefel::data
