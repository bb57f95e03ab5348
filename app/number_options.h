#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

#include "base/numbers.h"

/// Validators of options with numbers. The parser's own conversion turns a number that is too large into
/// another one.
namespace stiefel::app {

/// Accepts whole numbers from `low` to `high`, both included; for CLI::Option::transform. The error names the
/// value and the bounds.
CLI::Validator whole_number(int64_t low = std::numeric_limits<int64_t>::min(),
                            int64_t high = std::numeric_limits<int64_t>::max());

/// Rejects what is not a number; for CLI::Option::check. The code that uses the number checks its range.
CLI::Validator number();

/// Rejects what is not a number in the interval.
CLI::Validator number(const base::Interval& allowed);

}  // namespace stiefel::app
