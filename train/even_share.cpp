#include "even_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace stiefel::train {

namespace {

/// The numbers next to one that divide another: "2 or 4", or the lower alone.
std::string neighbors_that_divide(int64_t whole, int64_t number) {
  int64_t lower = std::min(number, whole);
  while (whole % lower != 0) --lower;
  int64_t upper = number;
  while (upper < whole && whole % upper != 0) ++upper;
  return upper <= whole && upper > lower ? fmt::format("{} or {}", lower, upper) : fmt::format("{}", lower);
}

}  // namespace

void require_even_share(const record::Config& config, int64_t processes) {
  if (config.batch % processes == 0) return;
  throw std::invalid_argument(fmt::format(
      "--batch is {}, which {} processes cannot share evenly; choose a multiple of {}, such as {}",
      config.batch, processes, processes, std::max<int64_t>(1, config.batch / processes) * processes));
}

void require_even_share_of_run(const record::Config& config, int64_t processes) {
  if (config.batch % processes == 0) return;
  throw std::invalid_argument(
      fmt::format("the run's batch is {}, which {} processes cannot share evenly; go on with a number of "
                  "processes that divides it, such as {}",
                  config.batch, processes, neighbors_that_divide(config.batch, processes)));
}

}  // namespace stiefel::train
