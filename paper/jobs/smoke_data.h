#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace stiefel::paper {

constexpr int64_t kSmokeTrain = 2048;
constexpr int64_t kSmokeTest = 512;

/// A little of a data set, in the set's own format: the first images of each of its files, so many to train
/// and to test. Written into `target`, which is then a --data-dir, unless it is there already.
/// Throws std::runtime_error with the remedy where the set itself is nowhere to be found.
void provide_smoke_data(const std::string& set, const std::filesystem::path& data_dir,
                        const std::filesystem::path& target);

}  // namespace stiefel::paper
