#include "number_options.h"

#include <fmt/format.h>

#include <stdexcept>

namespace stiefel::app {

namespace {

/// The message of the exception that `read` throws, which the parser prints after the option's name; empty
/// where it throws none.
template <class Read>
std::string error_of(const Read& read) {
  try {
    read();
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

void require(bool good, const std::string& value, const std::string& allowed) {
  if (!good) throw std::invalid_argument(fmt::format("{} is out of range; it must be {}", value, allowed));
}

}  // namespace

CLI::Validator whole_number(int64_t low, int64_t high) {
  const bool bounded =
      low > std::numeric_limits<int64_t>::min() || high < std::numeric_limits<int64_t>::max();
  const auto bounds = fmt::format("from {} to {}", low, high);
  return {[=](std::string& word) {
            return error_of([&] {
              const auto value = base::to_whole(word);
              require(value >= low && value <= high, word, bounds);
              word = std::to_string(value);
            });
          },
          bounded ? bounds : ""};
}

CLI::Validator number() {
  return {[](std::string& word) { return error_of([&] { base::to_number(word); }); }, ""};
}

CLI::Validator number(const base::Interval& allowed) {
  return {
      [=](std::string& word) {
        return error_of([&] { require(allowed.contains(base::to_number(word)), word, to_string(allowed)); });
      },
      to_string(allowed)};
}

}  // namespace stiefel::app
