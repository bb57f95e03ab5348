#pragma once

#include <filesystem>
#include <string>

namespace stiefel::paper {

/// A little of a data set, in the set's own format: the first images of each of its files, about 2,000 to
/// train and 500 to test. Written into `target`, which is then a --data-dir, unless it is there already.
/// Throws std::runtime_error with the remedy where the set itself is nowhere to be found.
void provide_smoke_data(const std::string& set, const std::filesystem::path& data_dir,
                        const std::filesystem::path& target);

}  // namespace stiefel::paper
