#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/catalog.h"
#include "data/images.h"
#include "data/places.h"

namespace stiefel::data {

struct Dataset {
  std::string name;
  int64_t classes;
  Images train;
  Images test;
  std::filesystem::path where;  ///< the folder it was read from
};

/// Reads fashion-mnist, mnist, cifar10 or cifar100 from the first place that has it (places.h says where it
/// looks; a folder that the user names is the only one). Fewer images than published will do (data/check.h is
/// the strict one), more will not: the memory that a file takes is bounded by what the set has. Throws
/// std::runtime_error where it is not found, with the remedy, or where a file is not what it should be, with
/// the file, the byte and what was expected.
Dataset load(const std::string& name, const std::filesystem::path& data_dir = {});

/// Reads one file of a set: its count of images or labels, once its layout and labels have proved right and
/// it holds no more than the published file.
int64_t count_in(const std::filesystem::path& file, const FileFacts& facts, int64_t classes);

struct Split {
  Images train;
  Images validation;
};

/// Sets `validation_count` images apart, drawn at random but the same ones for the same seed. Both parts keep
/// the order of the whole.
Split split(const Images& images, int64_t validation_count, uint64_t seed);

}  // namespace stiefel::data
