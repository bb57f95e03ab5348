#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

// What is known of each data set: what its files are called, what is in them, where they come from.

namespace stiefel::data {

enum class Content { kIdxImages, kIdxLabels, kCifar10, kCifar100 };

/// Of one item of a file: an image, a label, or a record of both.
int64_t item_bytes(Content content);

/// One file of a data set. On disk it may be gzipped, with .gz after its name.
struct FileFacts {
  std::string name;
  Content content;
  bool train;       ///< of the training set, or else of the test set
  int64_t count;    ///< images or labels in it
  std::string md5;  ///< of the uncompressed bytes

  /// Of the published file, uncompressed, but for the few of an IDX file's header.
  int64_t bytes() const { return count * item_bytes(content); }
};

struct SetFacts {
  std::string name;
  int64_t classes;
  std::vector<std::string> folders;  ///< what its folder may be called; the first is what `get` makes
  std::vector<FileFacts> files;
  std::string debian_package;  ///< where `get` takes it from: the one of the three that is not empty
  std::string npm_package;
  std::string address;

  /// Of its images: three colours, or grey.
  int64_t channels() const { return files.at(0).content == Content::kIdxImages ? 1 : 3; }
};

/// fashion-mnist, mnist, cifar10, cifar100.
const std::vector<SetFacts>& catalog();

/// Throws std::invalid_argument naming the data sets there are.
const SetFacts& facts_of(const std::string& name);

/// The file of that name in a folder: as it is, gzipped, or with the dot that some copies of MNIST have for
/// the first "-" of "-idx3"; nothing where there is none.
std::optional<std::filesystem::path> find_file(const std::filesystem::path& folder, const std::string& name);

/// The names that find_file tries.
std::vector<std::string> spellings(const std::string& name);

}  // namespace stiefel::data
