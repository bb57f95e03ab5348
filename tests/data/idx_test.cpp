#include <gtest/gtest.h>
#include <torch/torch.h>
#include <zlib.h>

#include <filesystem>
#include <fstream>

#include "data/idx.h"
#include "tests/scratch.h"

// The IDX reader on files made here, good and bad, and on Fashion-MNIST where it is installed.

namespace idx_test {

namespace fs = std::filesystem;

/// What good() holds two of.
const stiefel::data::IdxItems kRows{10, {3}, "rows"};

class Idx : public scratch::Test {
 protected:
  fs::path write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }

  static std::string good() {
    std::string bytes{'\0', '\0', '\x08', '\x02', '\0', '\0', '\0', '\x02', '\0', '\0', '\0', '\x03'};
    for (char i = 1; i <= 6; ++i) bytes.push_back(i);
    return bytes;
  }

  static std::string error(const fs::path& file) {
    try {
      stiefel::data::read_idx(file, kRows);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Idx, ReadsPlainAndGzipped) {
  const auto expected = torch::arange(1, 7).to(torch::kByte).view({2, 3});
  EXPECT_TRUE(torch::equal(stiefel::data::read_idx(write("plain", good()), kRows), expected));
  const auto path = folder_ / "zipped.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, good().data(), static_cast<unsigned>(good().size()));
  gzclose(file);
  EXPECT_TRUE(torch::equal(stiefel::data::read_idx(path, kRows), expected));
}

TEST_F(Idx, ErrorsNameTheFileTheByteAndWhatWasExpected) {
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  EXPECT_TRUE(has(error(folder_ / "absent"), "absent: cannot be opened"));
  EXPECT_TRUE(has(error(write("short", good().substr(0, 15))), "short: byte 15: expected 6 bytes"));
  EXPECT_TRUE(has(error(write("header", good().substr(0, 6))), "header: byte 6: expected a dimension"));
  EXPECT_TRUE(has(error(write("long", good() + "x")), "long: byte 18: expected the end"));
  auto magic = good();
  magic[0] = 1;
  EXPECT_TRUE(has(error(write("magic", magic)), "byte 0"));
  auto type = good();
  type[2] = 13;
  EXPECT_TRUE(has(error(write("type", type)), "type 13"));
  auto flat = good();
  flat[3] = 1;
  EXPECT_TRUE(has(error(write("flat", flat)), "byte 3: expected 2 dimensions (rows), found 1"));
  auto none = good();
  none[7] = 0;
  EXPECT_TRUE(has(error(write("none", none)), "byte 4: expected 1 to 10 rows, found 0"));
}

TEST_F(Idx, NoMemoryIsTakenForMoreThanTheFileMayHold) {
  auto huge = good();
  huge[4] = huge[5] = huge[6] = huge[7] = '\xff';
  EXPECT_EQ(error(write("huge", huge)),
            (folder_ / "huge").string() + ": byte 4: expected 1 to 10 rows, found 4294967295");
  auto wide = good();
  wide[8] = '\x7f';
  EXPECT_EQ(error(write("wide", wide)),
            (folder_ / "wide").string() + ": byte 8: expected 3 pixels, found 2130706435");
  auto eleven = good();
  eleven[7] = 11;
  EXPECT_EQ(error(write("eleven", eleven + std::string(27, 'x'))),
            (folder_ / "eleven").string() + ": byte 4: expected 1 to 10 rows, found 11");
  auto ten = good();
  ten[7] = 10;
  EXPECT_EQ(error(write("ten", ten + std::string(24, 'x'))), "");
}

TEST_F(Idx, DamagedGzipIsAnError) {
  const auto path = folder_ / "damaged.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, good().data(), static_cast<unsigned>(good().size()));
  gzclose(file);
  std::fstream stream(path, std::ios::in | std::ios::out | std::ios::binary);
  stream.seekp(14);
  stream.put('\x55').put('\x55');
  stream.close();
  EXPECT_NE(error(path), "");
}

TEST_F(Idx, ReadsFashionMnist) {
  const fs::path folder = "/usr/share/datasets/fashion-mnist";
  if (!fs::exists(folder)) GTEST_SKIP() << "no Fashion-MNIST (Debian: dataset-fashion-mnist)";
  const auto images =
      stiefel::data::read_idx(folder / "t10k-images-idx3-ubyte.gz", {10000, {28, 28}, "images"});
  const auto labels = stiefel::data::read_idx(folder / "t10k-labels-idx1-ubyte.gz", {10000, {}, "labels"});
  EXPECT_EQ(images.sizes(), (std::vector<int64_t>{10000, 28, 28}));
  EXPECT_EQ(torch::bincount(labels.to(torch::kLong)).min().item<int64_t>(), 1000);
  EXPECT_NEAR(images.to(torch::kFloat).mean().item<double>() / 255, 0.287, 0.002);
}

}  // namespace idx_test
