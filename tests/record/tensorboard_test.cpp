#include "record/tensorboard.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/files.h"
#include "tests/scratch.h"

namespace tensorboard_test {

namespace base = stiefel::base;
using namespace stiefel::record;

class Folder : public scratch::Test {};

TEST(TensorBoard, ChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);  // the check value of the CRC catalogue
  EXPECT_EQ(crc32c(""), 0u);
}

TEST_F(Folder, TensorBoardRecordsDecodeAsProtocolBuffers) {
  if (std::system("command -v protoc >/dev/null 2>&1") != 0)
    GTEST_SKIP() << "no protoc (Debian: protobuf-compiler)";
  const auto record = tensorboard_scalar("test_error", 12.5F, 300, 1.5);
  uint64_t length = 0;
  std::memcpy(&length, record.data(), 8);
  ASSERT_EQ(record.size(), 8 + 4 + length + 4);
  std::ofstream(folder_ / "event", std::ios::binary) << record.substr(12, length);
  const auto command =
      "protoc --decode_raw < " + (folder_ / "event").string() + " > " + (folder_ / "text").string();
  ASSERT_EQ(std::system(command.c_str()), 0);
  const auto text = base::read_file(folder_ / "text");
  EXPECT_EQ(text,
            "1: 0x3ff8000000000000\n2: 300\n5 {\n  1 {\n    1: \"test_error\"\n    2: 0x41480000\n  }\n}\n");
}

}  // namespace tensorboard_test
