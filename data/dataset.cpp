#include "dataset.h"

#include <ATen/ATen.h>

#include <stdexcept>
#include <vector>

#include "base/printable.h"
#include "cifar.h"
#include "idx.h"
#include "permutation.h"

namespace stiefel::data {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, int64_t byte, const std::string& expected,
                       const std::string& found) {
  throw std::runtime_error(base::printable(file) + ": byte " + std::to_string(byte) + ": expected " +
                           expected + ", found " + found);
}

/// (N, 1, 28, 28).
at::Tensor read_pixels(const fs::path& file, int64_t most) {
  return read_idx(file, {most, {28, 28}, "images"}).unsqueeze(1);
}

at::Tensor read_labels(const fs::path& file, int64_t most, int64_t classes) {
  const auto labels = read_idx(file, {most, {}, "labels"});
  const auto* values = labels.data_ptr<uint8_t>();
  for (int64_t i = 0; i < labels.size(0); ++i) {
    if (values[i] >= classes) {
      fail(file, 8 + i, "a label below " + std::to_string(classes), std::to_string(values[i]));
    }
  }
  return labels.to(at::kLong);
}

/// The training set's part, or the test set's.
Images read_part(const SetFacts& facts, const fs::path& folder, bool train) {
  std::vector<at::Tensor> pixels, labels;
  fs::path pixels_file, labels_file;
  for (const auto& file : facts.files) {
    if (file.train != train) continue;
    const auto path = find_file(folder, file.name);
    if (!path) throw std::runtime_error(base::printable(folder / file.name) + ": is missing");
    if (file.content == Content::kIdxImages) {
      pixels.push_back(read_pixels(pixels_file = *path, file.count));
    } else if (file.content == Content::kIdxLabels) {
      labels.push_back(read_labels(labels_file = *path, file.count, facts.classes));
    } else {
      const auto kind = file.content == Content::kCifar10 ? Cifar::k10 : Cifar::k100;
      auto images = read_cifar(*path, kind, file.count);
      pixels.push_back(images.pixels);
      labels.push_back(images.labels);
    }
  }
  Images images{at::cat(pixels), at::cat(labels)};
  if (images.pixels.size(0) != images.labels.size(0)) {
    fail(
        labels_file, 4,
        std::to_string(images.pixels.size(0)) + " labels, as " + base::printable(pixels_file) + " has images",
        std::to_string(images.labels.size(0)));
  }
  return images;
}

Images pick(const Images& images, const at::Tensor& indices) {
  return {images.pixels.index_select(0, indices), images.labels.index_select(0, indices)};
}

}  // namespace

Dataset load(const std::string& name, const fs::path& data_dir) {
  const auto& facts = facts_of(name);
  const auto where = locate(facts, data_dir);
  try {
    return {name, facts.classes, read_part(facts, where, true), read_part(facts, where, false), where};
  } catch (const std::runtime_error& error) {
    throw std::runtime_error(
        std::string(error.what()) +
        "; replace that file, or remove it and fetch the set: " + fetch_remedy(facts, data_dir));
  }
}

int64_t count_in(const fs::path& file, const FileFacts& facts, int64_t classes) {
  switch (facts.content) {
    case Content::kIdxImages:
      return read_pixels(file, facts.count).size(0);
    case Content::kIdxLabels:
      return read_labels(file, facts.count, classes).size(0);
    case Content::kCifar10:
      return read_cifar(file, Cifar::k10, facts.count).size();
    case Content::kCifar100:
      return read_cifar(file, Cifar::k100, facts.count).size();
  }
  return 0;
}

Split split(const Images& images, int64_t validation_count, uint64_t seed) {
  const auto size = images.size();
  TORCH_CHECK(validation_count >= 0 && validation_count < size, "split: the validation set must have 0 to ",
              size - 1, " of the ", size, " images, not ", validation_count);
  const auto order = permutation(size, Stream(mix(seed, 0, 0, Purpose::kSplit)));
  const auto sorted = [&](int64_t from, int64_t to) { return std::get<0>(order.slice(0, from, to).sort()); };
  return {pick(images, sorted(validation_count, size)), pick(images, sorted(0, validation_count))};
}

}  // namespace stiefel::data
