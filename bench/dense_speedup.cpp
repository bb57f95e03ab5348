#include "dense_speedup.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>

#include "base/table.h"

namespace stiefel::bench {

namespace {

/// How many times faster than the dense form the step is meant to be; 0 without a goal.
double goal_over_dense(int64_t p, int64_t n) {
  if (n == p) return 1 / 1.5;
  if (n >= 9 * p && p >= 256) return 4.5;
  if (n >= 4 * p && p >= 256) return 2;
  return n >= 2 * p ? 1 : 0;
}

}  // namespace

std::string format_dense_speedup(const std::vector<std::pair<Workload, std::vector<Row>>>& results) {
  base::Table table({"Cayley SGD over its dense form", "n/p", "times faster", "goal", ""});
  bool any = false;
  for (const auto& [workload, rows] : results) {
    const auto* ours = find_row(rows, "cayley-sgd");
    const auto* dense = find_row(rows, "dense");
    const double faster = ours && dense ? ratio_in_rounds(*dense, *ours) : kUnknown;
    if (std::isnan(faster)) continue;
    any = true;
    if (workload.layers.size() > 1) {
      table.add({workload.title, "", fmt::format("{:.2f}", faster), "", ""});
      continue;
    }
    const auto p = workload.layers[0].p();
    const auto n = workload.layers[0].n();
    const double goal = goal_over_dense(p, n);
    table.add({workload.title, fmt::format("{:.2f}", static_cast<double>(n) / static_cast<double>(p)),
               fmt::format("{:.2f}", faster), goal > 0 ? fmt::format("≥ {:.2f}", goal) : "",
               faster < goal ? "missed" : ""});
  }
  std::ostringstream text;
  if (any) table.print(text);
  return text.str();
}

}  // namespace stiefel::bench
