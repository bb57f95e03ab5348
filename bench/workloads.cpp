#include "workloads.h"

#include <regex>
#include <stdexcept>

namespace stiefel::bench {

namespace {

int64_t product_of(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (const auto size : sizes) result *= size;
  return result;
}

}  // namespace

int64_t Layer::n() const { return product_of(sizes) / (batched ? sizes[0] * sizes[1] : sizes[0]); }

int64_t Workload::weights() const {
  int64_t total = 0;
  for (const auto& layer : layers) total += product_of(layer.sizes) * layer.count;
  return total;
}

int64_t Workload::matrices() const {
  int64_t total = 0;
  for (const auto& layer : layers) total += layer.matrices();
  return total;
}

Workload shape_workload(const std::string& shape) {
  std::smatch match;
  const std::regex pattern(R"(([1-9]\d{0,5})x([1-9]\d{0,6})(?:([x*])([1-9]\d{0,6}))?)");
  if (!std::regex_match(shape, match, pattern)) {
    throw std::invalid_argument("--shape is '" + shape +
                                "'; it must be PxN, PxNxB for a stack of B, or PxN*C for C weights "
                                "(256x2304, 16x64x4096, 16x64*4096)");
  }
  const int64_t p = std::stoll(match[1]);
  const int64_t n = std::stoll(match[2]);
  const auto matrix = match[1].str() + "×" + match[2].str();
  if (!match[3].matched) return {shape, "one " + matrix, {{{p, n}}}};
  const int64_t count = std::stoll(match[4]);
  const auto title = match[4].str() + " of " + matrix;
  if (match[3] == "*") return {shape, title + ", each a parameter", {{{p, n}, count}}};
  return {shape, title + ", one stacked parameter", {{{count, p, n}, 1, true}}};
}

}  // namespace stiefel::bench
