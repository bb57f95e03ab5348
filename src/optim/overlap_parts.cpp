#include "optim/overlap_parts.h"

#include <algorithm>
#include <numeric>

namespace stiefel::detail {

std::vector<std::vector<size_t>> divide_by_arrival(const std::vector<OverlapUnit>& units, int64_t parts) {
  std::vector<size_t> order(units.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return units[a].last_arrival < units[b].last_arrival; });
  double total = 0;
  for (const auto& unit : units) total += unit.work;
  // Each but the last has an even share or more, so there are no more than `parts`.
  const double share = total / static_cast<double>(parts);
  std::vector<std::vector<size_t>> lists;
  double work = share;  // of the last list
  for (const auto i : order) {
    if (work >= share && static_cast<int64_t>(lists.size()) < parts) {
      lists.emplace_back();
      work = 0;
    }
    lists.back().push_back(i);
    work += units[i].work;
  }
  return lists;
}

}  // namespace stiefel::detail
