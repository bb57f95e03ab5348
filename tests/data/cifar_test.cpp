#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/torch.h>
#include <zlib.h>

#include "data/cifar.h"
#include "data_support.h"

// The reader of CIFAR's binary layout on files made here, good and bad.

namespace cifar_test {

using stiefel::data::Cifar;

/// Of files that hold fewer than a published one.
stiefel::data::Images read_cifar(const support::fs::path& file, Cifar kind) {
  return stiefel::data::read_cifar(file, kind, 10000);
}

class CifarFile : public support::DataTest {
 protected:
  support::fs::path write(const std::string& name, const std::string& bytes) const {
    return support::write(folder_ / name, bytes);
  }
};

TEST_F(CifarFile, ReadsOneLabelAndThreePlanes) {
  const auto bytes = support::cifar10_records(13);
  const auto images = read_cifar(write("batch.bin", bytes), Cifar::k10);
  ASSERT_EQ(images.pixels.sizes(), (std::vector<int64_t>{13, 3, 32, 32}));
  EXPECT_EQ(images.pixels.scalar_type(), torch::kByte);
  EXPECT_TRUE(torch::equal(images.labels, torch::arange(13) % 10));
  for (const int64_t record : {0, 12}) {
    for (const int64_t channel : {0, 1, 2}) {
      const auto byte = record * 3073 + 1 + channel * 1024 + 5 * 32 + 7;
      EXPECT_EQ(images.pixels[record][channel][5][7].item<uint8_t>(),
                static_cast<uint8_t>(bytes[static_cast<size_t>(byte)]));
    }
  }
}

TEST_F(CifarFile, TakesTheFineLabelOfTwo) {
  const auto bytes = support::cifar100_records(130);
  const auto images = read_cifar(write("train.bin", bytes), Cifar::k100);
  ASSERT_EQ(images.pixels.sizes(), (std::vector<int64_t>{130, 3, 32, 32}));
  EXPECT_TRUE(torch::equal(images.labels, torch::arange(130) % 100));
  EXPECT_EQ(images.pixels[129][0][0][0].item<uint8_t>(), static_cast<uint8_t>(bytes[129 * 3074 + 2]));
}

TEST_F(CifarFile, ReadsGzipped) {
  const auto bytes = support::cifar10_records(3);
  const auto path = folder_ / "batch.bin.gz";
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  EXPECT_TRUE(torch::equal(read_cifar(path, Cifar::k10).pixels,
                           read_cifar(write("batch.bin", bytes), Cifar::k10).pixels));
  support::fs::resize_file(path, support::fs::file_size(path) - 4);  // cuts the checksum only
  EXPECT_MESSAGE(read_cifar(path, Cifar::k10), "batch.bin.gz: byte 9219: expected data, found the end");
}

/// The most memory that this process ever had.
int64_t peak_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

TEST_F(CifarFile, StopsAtMoreThanTheSetHolds) {
  const auto three = support::cifar10_records(3);
  EXPECT_EQ(stiefel::data::read_cifar(write("three", three), Cifar::k10, 3).size(), 3);
  EXPECT_MESSAGE(
      stiefel::data::read_cifar(write("three", three), Cifar::k10, 2),
      "three: byte 6146: expected the end of the file after 2 records of 3073 bytes at most, found "
      "more data");
  // A small file that unpacks to 100 000 records, all of them good.
  const auto path = folder_ / "bomb.gz";
  gzFile file = gzopen(path.c_str(), "wb1");
  const std::string zeros(3073 * 1000, '\0');
  for (int i = 0; i < 100; ++i) gzwrite(file, zeros.data(), static_cast<unsigned>(zeros.size()));
  gzclose(file);
  const auto before = peak_memory();
  EXPECT_MESSAGE(read_cifar(path, Cifar::k10),
                 "byte 30730000: expected the end of the file after 10000 records");
  EXPECT_LT(peak_memory() - before, 4 * 30730000);
}

TEST_F(CifarFile, ErrorsNameTheFileTheByteAndWhatWasExpected) {
  EXPECT_MESSAGE(read_cifar(folder_ / "absent", Cifar::k10), "absent: cannot be opened (No such file");
  EXPECT_MESSAGE(read_cifar(folder_, Cifar::k10), "byte 0: expected data, found an error");
  EXPECT_MESSAGE(read_cifar(write("empty", ""), Cifar::k10),
                 "empty: byte 0: expected whole records of 3073 bytes, found an empty file");
  const auto good = support::cifar10_records(3);
  EXPECT_MESSAGE(
      read_cifar(write("short", good.substr(0, good.size() - 5)), Cifar::k10),
      "short: byte 9214: expected whole records of 3073 bytes, found the end of the file 3068 bytes "
      "into record 2");
  EXPECT_MESSAGE(read_cifar(write("other", good), Cifar::k100), "whole records of 3074 bytes");
  auto label = good;
  label[2 * 3073] = 10;
  EXPECT_MESSAGE(read_cifar(write("label", label), Cifar::k10),
                 "label: byte 6146: expected a label below 10, found 10");
  auto fine = support::cifar100_records(3);
  fine[3074 + 1] = static_cast<char>(200);
  EXPECT_MESSAGE(read_cifar(write("fine", fine), Cifar::k100),
                 "fine: byte 3075: expected a fine label below 100, found 200");
  auto coarse = support::cifar100_records(3);
  coarse[3074] = 20;
  EXPECT_MESSAGE(read_cifar(write("coarse", coarse), Cifar::k100),
                 "coarse: byte 3074: expected a coarse label below 20, found 20");
}

}  // namespace cifar_test
