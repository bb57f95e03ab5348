#include "idx.h"

#include <ATen/ATen.h>
#include <zlib.h>

#include <array>
#include <memory>
#include <stdexcept>
#include <string>

// The format: two zero bytes, the type (8: unsigned byte), the number of dimensions, each dimension as a
// big-endian 32-bit integer, then the data, row-major.

namespace stiefel::data {

namespace {

constexpr int kUnsignedByte = 8;
constexpr int64_t kMostElements = int64_t{1} << 33;

class Reader {
 public:
  explicit Reader(const std::filesystem::path& file)
      : name_(file.string()), file_(gzopen(file.c_str(), "rb")) {
    if (!file_) throw std::runtime_error(name_ + ": cannot be opened");
    gzbuffer(file_.get(), 1 << 18);
  }

  void read(void* to, int64_t bytes, const std::string& what) {
    auto* place = static_cast<char*>(to);
    for (int64_t done = 0; done < bytes;) {
      const auto piece = static_cast<unsigned>(std::min<int64_t>(bytes - done, 1 << 26));
      const int got = gzread(file_.get(), place + done, piece);
      if (got < 0) fail(at_ + done, what, error());
      if (got == 0) fail(at_ + done, what, "the end of the file (it is truncated)");
      done += got;
    }
    at_ += bytes;
  }

  void expect_end() {
    char extra = 0;
    const int got = gzread(file_.get(), &extra, 1);
    if (got < 0) fail(at_, "the end of the file", error());
    if (got > 0) fail(at_, "the end of the file, as its header says", "more data");
  }

  [[noreturn]] void fail(int64_t byte, const std::string& expected, const std::string& found) const {
    throw std::runtime_error(name_ + ": byte " + std::to_string(byte) + ": expected " + expected +
                             ", found " + found);
  }

  int64_t at() const { return at_; }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };

  std::string error() const {
    int code = 0;
    const char* text = gzerror(file_.get(), &code);
    return "damaged gzip data (" + std::string(text) + ")";
  }

  std::string name_;
  std::unique_ptr<gzFile_s, Close> file_;
  int64_t at_ = 0;  // in the uncompressed data
};

}  // namespace

at::Tensor read_idx(const std::filesystem::path& file) {
  Reader reader(file);
  std::array<unsigned char, 4> magic{};
  reader.read(magic.data(), magic.size(), "an IDX header");
  if (magic[0] != 0 || magic[1] != 0)
    reader.fail(0, "two zero bytes, which begin an IDX file", "other values");
  if (magic[2] != kUnsignedByte) {
    reader.fail(2, "type 8 (unsigned bytes)", "type " + std::to_string(magic[2]));
  }
  if (magic[3] == 0 || magic[3] > 4) reader.fail(3, "1 to 4 dimensions", std::to_string(magic[3]));

  std::vector<int64_t> shape;
  int64_t elements = 1;
  for (int i = 0; i < magic[3]; ++i) {
    std::array<unsigned char, 4> bytes{};
    const auto place = reader.at();
    reader.read(bytes.data(), bytes.size(), "a dimension");
    const int64_t size = (int64_t{bytes[0]} << 24) | (bytes[1] << 16) | (bytes[2] << 8) | bytes[3];
    if (size == 0 || size > kMostElements / elements)
      reader.fail(place, "a sane dimension", std::to_string(size));
    elements *= size;
    shape.push_back(size);
  }
  auto result = at::empty(shape, at::kByte);
  reader.read(result.data_ptr(), elements, std::to_string(elements) + " bytes of data");
  reader.expect_end();
  return result;
}

}  // namespace stiefel::data
