#pragma once

#include <torch/serialize/archive.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "choices.h"

namespace fuzz {

/// An optimizer's archive as a tree, to be damaged entry by entry. (LibTorch's own reader of bytes is not
/// ours to test, and mutated bytes seldom reach past it.)
struct ArchiveTree {
  struct Entry {
    c10::IValue value;  ///< a tensor, number, flag or text; none where there is a folder
    std::unique_ptr<ArchiveTree> folder;
  };
  std::map<std::string, Entry> entries;

  static ArchiveTree of(torch::serialize::InputArchive& archive);
  void write(torch::serialize::OutputArchive& archive) const;
  ArchiveTree copy() const;

  /// Every place of an entry.
  struct Place {
    ArchiveTree* folder;
    std::string name;
  };
  std::vector<Place> places();
};

/// Removes, renames, swaps or replaces entries, as the choices say.
void damage(ArchiveTree& tree, Choices& choices);

torch::serialize::InputArchive archive_of(const ArchiveTree& tree);

}  // namespace fuzz
