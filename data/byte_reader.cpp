#include "byte_reader.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "base/printable.h"

namespace stiefel::data {

ByteReader::ByteReader(const std::filesystem::path& file)
    : name_(base::printable(file)), file_(gzopen(file.c_str(), "rb")) {
  if (!file_) throw std::runtime_error(name_ + ": cannot be opened (" + std::strerror(errno) + ")");
  gzbuffer(file_.get(), 1 << 18);
}

void ByteReader::fail(int64_t byte, const std::string& expected, const std::string& found) const {
  throw std::runtime_error(name_ + ": byte " + std::to_string(byte) + ": expected " + expected + ", found " +
                           found);
}

int64_t ByteReader::piece(void* to, int64_t most, const std::string& what) {
  const int got = gzread(file_.get(), to, static_cast<unsigned>(std::min<int64_t>(most, 1 << 26)));
  if (got > 0) {
    at_ += got;
    return got;
  }
  int code = Z_OK;
  const std::string text = gzerror(file_.get(), &code);
  if (code == Z_ERRNO) fail(at_, what, "an error (" + std::string(std::strerror(errno)) + ")");
  // zlib counts a gzip stream that stops before its checksum as an end like any other.
  if (code == Z_BUF_ERROR) fail(at_, what, "the end of the file (it is truncated)");
  if (got < 0) fail(at_, what, "damaged gzip data (" + text + ")");
  return 0;
}

void ByteReader::read(void* to, int64_t bytes, const std::string& what) {
  auto* place = static_cast<char*>(to);
  for (int64_t done = 0; done < bytes;) {
    const auto got = piece(place + done, bytes - done, what);
    if (got == 0) fail(at_, what, "the end of the file (it is truncated)");
    done += got;
  }
}

int64_t ByteReader::read_some(void* to, int64_t most) { return piece(to, most, "data"); }

std::vector<unsigned char> ByteReader::rest(int64_t most, const std::string& what) {
  constexpr size_t more = 1 << 22;
  const auto start = at_;
  const auto limit = static_cast<size_t>(most) + 1;  // a byte too many tells a file that is too long
  std::vector<unsigned char> bytes;
  for (size_t size = 0;;) {
    if (bytes.size() - size < more) bytes.resize(std::min(std::max(2 * size, size + more), limit));
    const auto got = read_some(bytes.data() + size, static_cast<int64_t>(bytes.size() - size));
    size += static_cast<size_t>(got);
    if (size == limit) fail(start + most, "the end of the file after " + what + " at most", "more data");
    if (got == 0) {
      bytes.resize(size);
      return bytes;
    }
  }
}

void ByteReader::expect_end() {
  char extra = 0;
  const auto end = at_;
  if (piece(&extra, 1, "the end of the file") > 0) {
    fail(end, "the end of the file, as its header says", "more data");
  }
}

}  // namespace stiefel::data
