#include "tests/limits.h"

#include <zlib.h>

#include "data/cifar.h"
#include "data/idx.h"
#include "data_support.h"

// Files of a data set that claim or unpack to more than any of ours: refused within a few seconds, and in the
// memory of the set that was asked for.

namespace data_limits_test {

using limits::refusal;
using namespace stiefel::data;
namespace fs = std::filesystem;

class DataLimits : public scratch::Test {
 protected:
  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  /// A gzip file of so many mebibytes of zeros after a beginning.
  fs::path bomb(const std::string& beginning, int mebibytes) const {
    const auto path = folder_ / "bomb.gz";
    const auto file = gzopen(path.c_str(), "wb9");
    gzwrite(file, beginning.data(), static_cast<unsigned>(beginning.size()));
    const std::string zeros(1 << 20, '\0');
    for (int i = 0; i < mebibytes; ++i) gzwrite(file, zeros.data(), static_cast<unsigned>(zeros.size()));
    gzclose(file);
    return path;
  }
};

constexpr int64_t kMost = 10000;
const IdxItems kImages{kMost, {28, 28}, "images"};

TEST_F(DataLimits, AnIdxFileThatClaimsMoreImagesThanThereAre) {
  // 2³² − 1 images of 28×28, over 2⁴¹ bytes, and dimensions whose product is past 2⁶⁴.
  const std::string many("\0\0\x08\x03\xff\xff\xff\xff\0\0\0\x1c\0\0\0\x1c", 16);
  const std::string huge("\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 16);
  for (const auto& header : {many, huge}) {
    const auto file = write("images", header);
    const auto message = refusal([&] { read_idx(file, kImages); }, 1, 16);
    EXPECT_NE(message.find("expected 1 to 10000 images, found 4294967295"), std::string::npos) << message;
  }
}

TEST_F(DataLimits, AGzipBomb) {
  const auto idx = bomb(std::string("\0\0\x08\x03\0\0\x27\x10\0\0\0\x1c\0\0\0\x1c", 16), 256);
  const auto message = refusal([&] { read_idx(idx, kImages); }, 10, 32);
  EXPECT_NE(message.find("expected the end of the file"), std::string::npos) << message;

  const auto records = bomb("", 256);
  EXPECT_LT(fs::file_size(records), 1 << 20);
  // Two copies of 10,000 records at the most, 60 MB, as the buffer grows.
  const auto found = refusal([&] { read_cifar(records, Cifar::k10, kMost); }, 10, 100);
  EXPECT_NE(found.find("10000 records"), std::string::npos) << found;
}

}  // namespace data_limits_test
