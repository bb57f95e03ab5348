#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>

#include "base/numbers.h"

/// How options with numbers are read. The parser's own reading takes another number for one that is too
/// large.
namespace stiefel::app {

/// Reads a whole number within these bounds, which belong to them; give it to CLI::Option::transform. The
/// error names the value and the bounds.
CLI::Validator whole_number(int64_t low = std::numeric_limits<int64_t>::min(),
                            int64_t high = std::numeric_limits<int64_t>::max());

/// Refuses what is not a number; give it to CLI::Option::check. Whoever uses the number checks its range.
CLI::Validator number();

/// Refuses what is not a number of the interval.
CLI::Validator number(const base::Interval& allowed);

}  // namespace stiefel::app
