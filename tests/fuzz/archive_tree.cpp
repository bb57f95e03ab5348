#include "archive_tree.h"

#include <ATen/ATen.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

namespace fuzz {

namespace {

at::Tensor other_tensor(const at::Tensor& tensor, Choices& choices) {
  switch (choices.between(0, 11)) {
    case 0:
      return at::full_like(tensor, NAN,
                           tensor.options().dtype(
                               at::isComplexType(tensor.scalar_type()) ? tensor.scalar_type() : at::kFloat));
    case 1:
      return at::full_like(tensor, 1e30, tensor.options().dtype(at::kDouble));
    case 2:
      return tensor.to(
          choices.pick({at::kDouble, at::kHalf, at::kBFloat16, at::kLong, at::kBool, at::kComplexDouble}));
    case 3:
      return tensor.flatten();
    case 4:
      return at::zeros({0});
    case 5:
      return at::ones({});
    case 6:
      return tensor.dim() > 0 ? tensor.transpose(0, -1) : tensor.unsqueeze(0);
    case 7:
      return at::ones({}).expand(tensor.sizes());
    case 8:
      return at::zeros({3, 0, 2});
    case 9:
      return tensor.dim() > 0 ? tensor.narrow(0, 0, tensor.size(0) / 2) : -tensor;
    case 10:
      return at::full_like(tensor, -1);
    default:
      return at::ones({2, 3, 4, 5, 6});
  }
}

c10::IValue other_value(const c10::IValue& value, Choices& choices) {
  if (value.isTensor() && value.toTensor().defined() && choices.coin())
    return other_tensor(value.toTensor(), choices);
  switch (choices.between(0, 6)) {
    case 0:
      return choices.pick(
          {0.0, -1.0, 0.5, 1e-300, 1e300, static_cast<double>(INFINITY), static_cast<double>(NAN)});
    case 1:
      return choices.pick<int64_t>({0, 1, -1, 2, 1000, 1001, std::numeric_limits<int64_t>::max(),
                                    std::numeric_limits<int64_t>::min()});
    case 2:
      return choices.coin();
    case 3:
      return std::string(choices.pick(
          {"", "stiefel", "euclidean", "spectral", "one", "mixed", "\x1b[31m\xff", "CayleyAdam"}));
    case 4:
      return at::ones({choices.between(0, 3)});
    case 5:
      return std::string(100000, 'x');
    default:
      return choices.between(-3, 3);
  }
}

}  // namespace

ArchiveTree ArchiveTree::of(torch::serialize::InputArchive& archive) {
  ArchiveTree tree;
  for (const auto& name : archive.keys()) {
    auto& entry = tree.entries[name];
    torch::serialize::InputArchive folder;
    if (archive.try_read(name, folder)) {
      entry.folder = std::make_unique<ArchiveTree>(of(folder));
    } else {
      archive.read(name, entry.value);
    }
  }
  return tree;
}

void ArchiveTree::write(torch::serialize::OutputArchive& archive) const {
  for (const auto& [name, entry] : entries) {
    if (entry.folder) {
      torch::serialize::OutputArchive folder(archive.compilation_unit());
      entry.folder->write(folder);
      archive.write(name, folder);
    } else if (entry.value.isTensor()) {
      archive.write(name, entry.value.toTensor(), /*is_buffer=*/true);
    } else {
      archive.write(name, entry.value);
    }
  }
}

ArchiveTree ArchiveTree::copy() const {
  ArchiveTree tree;
  for (const auto& [name, entry] : entries) {
    auto& made = tree.entries[name];
    made.value = entry.value;
    if (entry.folder) made.folder = std::make_unique<ArchiveTree>(entry.folder->copy());
  }
  return tree;
}

std::vector<ArchiveTree::Place> ArchiveTree::places() {
  std::vector<Place> all;
  for (auto& [name, entry] : entries) {
    all.push_back({this, name});
    if (!entry.folder) continue;
    for (auto& place : entry.folder->places()) all.push_back(std::move(place));
  }
  return all;
}

void damage(ArchiveTree& tree, Choices& choices) {
  const auto edits = choices.between(1, 3);
  for (int64_t i = 0; i < edits; ++i) {
    const auto all = tree.places();
    if (all.empty()) return;
    const auto choose = [&] {
      return all[static_cast<size_t>(choices.between(0, static_cast<int64_t>(all.size()) - 1))];
    };
    const auto place = choose();
    auto& entries = place.folder->entries;
    auto& entry = entries.at(place.name);
    switch (choices.between(0, 4)) {
      case 0:
        entries.erase(place.name);
        break;
      case 1: {
        auto moved = std::move(entry);
        entries.erase(place.name);
        entries["another"] = std::move(moved);
        break;
      }
      case 2: {  // another entry's content
        const auto other = choose();
        const auto& found = other.folder->entries.at(other.name);
        const auto value = found.value;
        auto folder = found.folder ? std::make_unique<ArchiveTree>(found.folder->copy()) : nullptr;
        entry.value = value;
        entry.folder = std::move(folder);
        break;
      }
      default:
        entry.value = other_value(entry.value, choices);
        entry.folder.reset();
        break;
    }
  }
}

torch::serialize::InputArchive archive_of(const ArchiveTree& tree) {
  std::stringstream stream;
  {
    torch::serialize::OutputArchive archive;
    tree.write(archive);
    archive.save_to(stream);
  }
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  return archive;
}

}  // namespace fuzz
