#include <ATen/ATen.h>
#include <stiefel/ranks.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "find_ranks.h"

namespace stiefel {

namespace {

/// All ranks that live, by name: an operator's arguments can be tensors, numbers and text, not objects.
struct Register {
  std::mutex mutex;
  std::map<std::string, Ranks*> known;
  int64_t made = 0;
};

Register& all_ranks() {
  static auto* const all = new Register;  // outlives every other static object
  return *all;
}

}  // namespace

Ranks::Ranks() {
  auto& all = all_ranks();
  const std::lock_guard<std::mutex> alone(all.mutex);
  name_ = "ranks-" + std::to_string(++all.made);
  all.known.emplace(name_, this);
}

Ranks::~Ranks() {
  auto& all = all_ranks();
  const std::lock_guard<std::mutex> alone(all.mutex);
  all.known.erase(name_);
}

Ranks& detail::find_ranks(const std::string& name) {
  auto& all = all_ranks();
  const std::lock_guard<std::mutex> alone(all.mutex);
  const auto found = all.known.find(name);
  TORCH_CHECK(found != all.known.end(), "stiefel: there are no ranks of the name '", name,
              "' any more; keep them while steps use them");
  return *found->second;
}

int64_t step_cost(at::IntArrayRef shape, bool batched) {
  TORCH_CHECK(shape.size() >= 2,
              "stiefel: a weight on the manifold has two or more dimensions; got the shape ", shape);
  const auto elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  if (elements == 0) return 0;
  const auto first = batched ? shape[shape.size() - 2] : shape[0];
  const auto second = batched ? shape.back() : elements / shape[0];
  const auto [p, n] = std::minmax(first, second);
  return elements / (p * n) * (n * p * p + p * p * p);
}

std::vector<int64_t> assign_owners(const std::vector<int64_t>& costs, int64_t ranks,
                                   std::vector<int64_t>& loads) {
  TORCH_CHECK(ranks >= 1, "stiefel: work is shared among 1 or more ranks; got ", ranks);
  loads.resize(static_cast<size_t>(ranks), 0);
  std::vector<size_t> order(costs.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return costs[a] > costs[b]; });
  std::vector<int64_t> owners(costs.size());
  for (const size_t i : order) {
    const auto least = std::min_element(loads.begin(), loads.end());
    *least += costs[i];
    owners[i] = least - loads.begin();
  }
  return owners;
}

}  // namespace stiefel
