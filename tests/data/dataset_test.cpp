#include <gtest/gtest.h>
#include <torch/torch.h>

#include <sstream>

#include "data/check.h"
#include "data/dataset.h"
#include "data/fingerprint.h"
#include "data/md5.h"
#include "data_support.h"

// Finding, loading, splitting and checking data sets: small ones written here in the real formats, and the
// real ones where they are installed.

namespace dataset_test {

namespace fs = support::fs;
using namespace stiefel::data;
using support::Variable;

class DatasetTest : public support::DataTest {};

TEST_F(DatasetTest, LoadsEverySet) {
  for (const auto& facts : catalog()) {
    support::write_set(facts.name, folder_ / facts.folders.front());
    const auto set = load(facts.name, folder_);
    const bool gray = facts.name.find("mnist") != std::string::npos;
    const auto side = gray ? 28 : 32;
    const auto train = facts.name == "cifar10" ? 60 : 12;
    EXPECT_EQ(set.name, facts.name);
    EXPECT_EQ(set.classes, facts.classes);
    EXPECT_EQ(set.where, folder_ / facts.folders.front());
    EXPECT_EQ(set.train.pixels.sizes(), (std::vector<int64_t>{train, gray ? 1 : 3, side, side}));
    EXPECT_EQ(set.train.labels.sizes(), (std::vector<int64_t>{train}));
    EXPECT_EQ(set.train.labels.scalar_type(), torch::kLong);
    EXPECT_EQ(set.test.size(), 12);
    EXPECT_FALSE(torch::equal(set.train.pixels.slice(0, 0, 12), set.test.pixels));
  }
}

TEST_F(DatasetTest, AFingerprintTellsWhatHasChanged) {
  support::write_set("mnist", folder_ / "mnist");
  const auto set = load("mnist", folder_);
  const auto print = fingerprint_of(set);
  using Changes = std::vector<std::string>;
  EXPECT_EQ(changes(print, fingerprint_of(load("mnist", folder_))), Changes{});
  // The CRC-32 of eight zero bytes, from the definition: labels are numbers of eight bytes.
  EXPECT_EQ(
      fingerprint_of({"", 1, {set.train.pixels, torch::zeros({1}, torch::kLong)}, set.test, {}}).train.labels,
      0x6522df69U);
  auto other = set;
  other.train.labels = set.train.labels.flip(0);
  EXPECT_EQ(changes(print, fingerprint_of(other)), Changes{"other training labels"});
  other = set;
  other.test.pixels = set.test.pixels.clone();
  other.test.pixels.view({-1})[-1] += 1;
  EXPECT_EQ(changes(print, fingerprint_of(other)), Changes{"other test images"});
  other.train = {set.train.pixels.slice(0, 0, 5), set.train.labels.slice(0, 0, 5)};
  EXPECT_EQ(changes(print, fingerprint_of(other)),
            (Changes{"5 training images instead of 12", "other test images"}));
}

TEST_F(DatasetTest, LooksInTheCacheThenTheSystemUnlessAFolderIsNamed) {
  EXPECT_EQ(places({}), (std::vector<fs::path>{folder_ / "xdg" / "stiefel", "/usr/share/datasets"}));
  EXPECT_MESSAGE(load("mnist"), "stiefel data get mnist");
  const auto in_cache = folder_ / "xdg" / "stiefel" / "mnist";
  support::write_set("mnist", in_cache);
  EXPECT_EQ(load("mnist").where, in_cache);

  support::write_set("mnist", folder_ / "variable" / "mnist");
  const Variable data("STIEFEL_DATA", (folder_ / "variable").string());
  EXPECT_EQ(places({}), std::vector<fs::path>{folder_ / "variable"});
  EXPECT_EQ(load("mnist").where, folder_ / "variable" / "mnist");

  support::write_set("mnist", folder_ / "named" / "mnist");
  EXPECT_EQ(places(folder_ / "named"), std::vector<fs::path>{folder_ / "named"});
  EXPECT_EQ(load("mnist", folder_ / "named").where, folder_ / "named" / "mnist");
}

TEST_F(DatasetTest, WhatIsWrongWithANamedFolderIsTheError) {
  // A whole copy in the cache, which must not stand in for what the user named.
  support::write_set("mnist", folder_ / "xdg" / "stiefel" / "mnist");
  const auto named = folder_ / "d";
  const auto expect = [&](const std::string& part) {
    EXPECT_MESSAGE(load("mnist", named), part);
    EXPECT_MESSAGE(check("mnist", named), part);
    EXPECT_MESSAGE(locate(facts_of("mnist"), named), part);
    EXPECT_MESSAGE(load("mnist", named), "stiefel data get mnist, and then leave out --data-dir");
    EXPECT_MESSAGE(load("mnist", named), "and nowhere else, because --data-dir names this folder");
    const Variable data("STIEFEL_DATA", named.string());
    EXPECT_MESSAGE(load("mnist"), part);
    EXPECT_MESSAGE(check("mnist"), part);
    EXPECT_MESSAGE(load("mnist"), "stiefel data get mnist, and then unset STIEFEL_DATA");
    EXPECT_MESSAGE(load("mnist"), "and nowhere else, because $STIEFEL_DATA names this folder");
  };
  fs::create_directories(named);
  expect("/d (no mnist in it)");
  support::write_set("mnist", named);
  expect("the files in it could be of several data sets: move them into a folder called mnist");
  fs::remove(named / "t10k-labels-idx1-ubyte");
  expect("the files in it could be of several data sets: move them into a folder called mnist");
  fs::create_directories(named / "mnist");
  fs::rename(named / "train-images-idx3-ubyte", named / "mnist" / "train-images-idx3-ubyte");
  expect("lacks train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte");
  // Complete but damaged.
  support::write_set("mnist", named / "mnist");
  support::write(named / "mnist" / "train-images-idx3-ubyte", support::idx_images(12).substr(0, 500));
  EXPECT_MESSAGE(load("mnist", named), "byte 500: expected 9408 bytes of data, found the end");
  EXPECT_MESSAGE(load("mnist", named), "stiefel data get mnist, and then leave out --data-dir");
  EXPECT_FALSE(check("mnist", named).ok());
  const Variable data("STIEFEL_DATA", (folder_ / "nowhere").string());
  EXPECT_MESSAGE(load("mnist"), "nowhere: the data folder does not exist or is no folder; name the one");
}

TEST_F(DatasetTest, AnIncompleteCopyInTheCacheIsPassedOverForTheSystems) {
  if (!fs::exists(system_folder() / "fashion-mnist")) GTEST_SKIP() << "no Fashion-MNIST here";
  const auto in_cache = folder_ / "xdg" / "stiefel" / "fashion-mnist";
  support::write_set("fashion-mnist", in_cache);
  EXPECT_EQ(locate(facts_of("fashion-mnist"), {}), in_cache);
  fs::remove(in_cache / "t10k-labels-idx1-ubyte");
  EXPECT_EQ(locate(facts_of("fashion-mnist"), {}), system_folder() / "fashion-mnist");
}

TEST_F(DatasetTest, TheCacheFollowsHome) {
  const Variable home("HOME", "/somewhere");
  {
    const Variable cache("XDG_CACHE_HOME", std::nullopt);
    EXPECT_EQ(cache_folder(), "/somewhere/.cache/stiefel");
  }
  const Variable cache("XDG_CACHE_HOME", "relative");
  EXPECT_EQ(cache_folder(), "/somewhere/.cache/stiefel");
  const Variable none("HOME", std::nullopt);
  EXPECT_EQ(cache_folder(), "");
}

TEST_F(DatasetTest, TheNameOfTheSetIsAFolderNameToo) {
  support::write_set("cifar10", folder_ / "cifar10");
  EXPECT_EQ(load("cifar10", folder_).where, folder_ / "cifar10");
}

TEST_F(DatasetTest, FilesDirectlyInTheDataFolder) {
  support::write_set("cifar100", folder_ / "loose");
  EXPECT_EQ(load("cifar100", folder_ / "loose").where, folder_ / "loose");
  // Loose IDX files could be of two sets, unless the folder's name says which.
  support::write_set("mnist", folder_ / "loose");
  EXPECT_MESSAGE(load("mnist", folder_ / "loose"), "move them into a folder called mnist");
  support::write_set("mnist", folder_ / "mnist");
  EXPECT_EQ(load("mnist", folder_ / "mnist").train.size(), 12);
  EXPECT_EQ(load("mnist", folder_ / "mnist/").train.size(), 12);
  EXPECT_EQ(load("mnist", folder_ / "mnist" / "../mnist").train.size(), 12);
  // The variable names a folder as the option does; the cache is searched for folders of the sets' names
  // only.
  {
    const Variable data("STIEFEL_DATA", (folder_ / "loose").string());
    EXPECT_EQ(load("cifar100").where, folder_ / "loose");
  }
  support::write_set("cifar100", folder_ / "xdg" / "stiefel");
  EXPECT_MESSAGE(load("cifar100"), "was not found");
}

TEST_F(DatasetTest, NotFoundSaysWhereItLookedAndWhatToDo) {
  support::write_set("cifar10", folder_ / "xdg" / "stiefel" / "cifar-10-batches-bin");
  fs::remove(folder_ / "xdg" / "stiefel" / "cifar-10-batches-bin" / "test_batch.bin");
  const auto text = support::message_of([&] { load("cifar10"); });
  for (const std::string part : {"cifar10 was not found", "cifar-10-batches-bin lacks test_batch.bin",
                                 "/usr/share/datasets", "stiefel data get cifar10"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " is not in: " << text;
  }
  fs::create_directories(folder_ / "empty");
  EXPECT_MESSAGE(load("cifar10", folder_ / "empty"), "/empty (no cifar-10-batches-bin or cifar10 in it)");
  EXPECT_MESSAGE(load("cifar10", folder_ / "nowhere"),
                 "nowhere: the data folder does not exist or is no folder; name the one");
  EXPECT_MESSAGE(load("cifar11"), "no data set is called 'cifar11'; there are fashion-mnist, mnist, cifar10");
}

TEST_F(DatasetTest, BadFilesAreErrors) {
  const auto mnist = folder_ / "mnist";
  const auto expect = [&](const std::string& file, const std::string& bytes, const std::string& part) {
    support::write_set("mnist", mnist);
    support::write(mnist / file, bytes);
    EXPECT_MESSAGE(load("mnist", folder_), part);
    EXPECT_MESSAGE(load("mnist", folder_), "remove it and fetch the set: stiefel data get mnist");
  };
  expect("train-labels-idx1-ubyte", support::idx_labels(11),
         "train-labels-idx1-ubyte: byte 4: expected 12 labels, as ");
  expect("t10k-labels-idx1-ubyte", support::idx_labels(12, 11),
         "t10k-labels-idx1-ubyte: byte 18: expected a label below 10, found 10");
  expect("t10k-labels-idx1-ubyte", support::idx_images(12), "byte 3: expected 1 dimension (labels), found 3");
  expect("t10k-images-idx3-ubyte", support::idx_labels(12),
         "byte 3: expected 3 dimensions (images), found 1");
  expect("train-images-idx3-ubyte", support::idx_images(12, 27), "byte 8: expected 28 pixels, found 27");
  expect("train-images-idx3-ubyte", support::idx_images(12).substr(0, 500),
         "train-images-idx3-ubyte: byte 500: expected 9408 bytes of data, found the end");
}

TEST_F(DatasetTest, FilesLargerThanTheSetAreErrorsBeforeTheyAreRead) {
  support::write_set("cifar10", folder_ / "cifar10");
  // Three gigabytes of zeros: a million records that look good, and no room on the disk.
  fs::resize_file(folder_ / "cifar10" / "data_batch_2.bin", int64_t{3073} << 20);
  const std::string more =
      "data_batch_2.bin: byte 30730000: expected the end of the file after 10000 records";
  EXPECT_MESSAGE(load("cifar10", folder_), more);
  const auto report = check("cifar10", folder_);
  EXPECT_NE(report.files[1].problem.find(more), std::string::npos) << report;
  EXPECT_EQ(report.files[1].md5, "");  // not all of it is read to sum it

  const auto expect = [&](const std::string& name, const std::string& bytes, const std::string& part) {
    support::write_set("mnist", folder_ / "mnist");
    support::write(folder_ / "mnist" / name, bytes);
    EXPECT_MESSAGE(load("mnist", folder_), part);
    EXPECT_FALSE(check("mnist", folder_).ok());
  };
  auto images = support::idx_images(12);
  images.replace(4, 4, support::big_endian(60001));
  expect("train-images-idx3-ubyte", images, "byte 4: expected 1 to 60000 images, found 60001");
  images.replace(8, 4, support::big_endian(int64_t{1} << 31));
  images.replace(4, 4, support::big_endian(2));
  expect("train-images-idx3-ubyte", images, "byte 8: expected 28 pixels, found 2147483648");
  auto labels = support::idx_labels(12);
  labels.replace(4, 4, support::big_endian(4294967295));
  expect("t10k-labels-idx1-ubyte", labels, "byte 4: expected 1 to 10000 labels, found 4294967295");
}

TEST_F(DatasetTest, ListsWhatIsWhere) {
  support::write_set("cifar10", folder_ / "cifar-10-batches-bin");
  support::write_set("cifar10", folder_ / "cifar10");
  support::write_set("cifar100", folder_ / "cifar-100-binary");
  fs::remove(folder_ / "cifar-100-binary" / "train.bin");
  support::write_set("mnist", folder_ / "xdg" / "stiefel" / "mnist");
  const auto listed = [&](const fs::path& data_dir) {
    std::ostringstream text;
    for (const auto& found : list(data_dir)) {
      if (found.name == "fashion-mnist") continue;  // the system may have it
      text << found.name << " " << fs::relative(found.where, folder_).string() << " " << found.used << " "
           << found.complete() << " " << found.missing.size() << "\n";
    }
    return text.str();
  };
  EXPECT_EQ(listed(folder_),
            "mnist  0 0 4\n"
            "cifar10 cifar-10-batches-bin 1 1 0\n"
            "cifar10 cifar10 0 1 0\n"
            "cifar100 cifar-100-binary 0 0 1\n");
  EXPECT_EQ(listed({}),
            "mnist xdg/stiefel/mnist 1 1 0\n"
            "cifar10  0 0 6\n"
            "cifar100  0 0 2\n");
}

TEST_F(DatasetTest, SplitsAreDisjointAndTheSameForTheSameSeed) {
  Images images{torch::arange(100).to(torch::kByte).view({100, 1, 1, 1}), torch::arange(100)};
  const auto parts = split(images, 30, 7);
  EXPECT_EQ(parts.train.size(), 70);
  EXPECT_EQ(parts.validation.size(), 30);
  const auto together = torch::cat({parts.train.labels, parts.validation.labels});
  EXPECT_TRUE(torch::equal(std::get<0>(together.sort()), images.labels));
  EXPECT_TRUE(torch::equal(parts.validation.pixels.view(-1).to(torch::kLong), parts.validation.labels));
  EXPECT_TRUE(torch::equal(split(images, 30, 7).validation.labels, parts.validation.labels));
  EXPECT_FALSE(torch::equal(split(images, 30, 8).validation.labels, parts.validation.labels));
  EXPECT_EQ(split(images, 0, 7).train.size(), 100);
  EXPECT_MESSAGE(split(images, 100, 7), "0 to 99 of the 100 images, not 100");
  EXPECT_MESSAGE(split(images, -1, 7), "not -1");
}

TEST_F(DatasetTest, Md5OfPlainAndGzipped) {
  const auto file = support::write(folder_ / "abc", "abc");
  EXPECT_EQ(md5_of(file), "900150983cd24fb0d6963f7d28e17f72");  // RFC 1321
  EXPECT_EQ(md5_of(support::write(folder_ / "nothing", "")), "d41d8cd98f00b204e9800998ecf8427e");
  ASSERT_EQ(std::system(("gzip -k " + file.string()).c_str()), 0);
  EXPECT_EQ(md5_of(folder_ / "abc.gz"), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(md5_of(support::write(folder_ / "large", std::string(3000000, 'x'))),
            "8e32e22642bddc89698e25a4e9bf528b");
  EXPECT_MESSAGE(md5_of(folder_ / "absent"), "cannot be opened");
  const Variable path("PATH", "/nowhere");
  EXPECT_MESSAGE(md5_of(file), "md5sum: cannot be run: No such file or directory\nIt is part of");
}

TEST_F(DatasetTest, CheckIsStrict) {
  support::write_set("cifar100", folder_ / "cifar100");
  auto report = check("cifar100", folder_);
  EXPECT_FALSE(report.ok());
  ASSERT_EQ(report.files.size(), 2U);
  EXPECT_EQ(report.files[0].problem, "expected 50000 images, found 12");
  EXPECT_EQ(report.files[0].count, 12);

  auto facts = facts_of("cifar100");
  for (auto& file : facts.files) {
    file.count = 12;
    file.md5 = md5_of(folder_ / "cifar100" / file.name);
  }
  report = check(facts, folder_ / "cifar100");
  EXPECT_TRUE(report.ok()) << report;
  // One pixel changed.
  auto bytes = support::contents(folder_ / "cifar100" / "test.bin");
  bytes[5000] = static_cast<char>(bytes[5000] + 1);
  support::write(folder_ / "cifar100" / "test.bin", bytes);
  report = check(facts, folder_ / "cifar100");
  EXPECT_FALSE(report.ok());
  EXPECT_TRUE(report.files[0].problem.empty());
  EXPECT_NE(report.files[1].problem.find("expected the MD5 sum " + facts.files[1].md5), std::string::npos);
  // Cut short: the reader's own message.
  support::write(folder_ / "cifar100" / "test.bin", bytes.substr(1));
  EXPECT_NE(check(facts, folder_ / "cifar100").files[1].problem.find("test.bin: byte "), std::string::npos);
  EXPECT_MESSAGE(check("mnist", folder_), "was not found");
}

/// The real sets, where this machine has them.
class RealSets : public ::testing::TestWithParam<std::string> {};

TEST_P(RealSets, AreTheWholePublishedOnes) {
  const auto& facts = facts_of(GetParam());
  if (support::message_of([&] { locate(facts, {}); }) != "") GTEST_SKIP() << "no " << GetParam() << " here";
  const auto report = check(GetParam());
  EXPECT_TRUE(report.ok()) << report;
  const auto set = load(GetParam());
  const bool gray = facts.name.find("mnist") != std::string::npos;
  EXPECT_EQ(set.train.size(), gray ? 60000 : 50000);
  EXPECT_EQ(set.test.size(), 10000);
  const auto counts = torch::bincount(set.test.labels);
  EXPECT_EQ(counts.size(0), set.classes);
  EXPECT_GT(counts.min().item<int64_t>(), 80);
}

INSTANTIATE_TEST_SUITE_P(All, RealSets, ::testing::Values("fashion-mnist", "mnist", "cifar10", "cifar100"),
                         [](const auto& test) {
                           auto name = test.param;
                           return name.erase(std::min(name.find('-'), name.size()),
                                             name.find('-') == std::string::npos ? 0 : 1);
                         });

}  // namespace dataset_test
