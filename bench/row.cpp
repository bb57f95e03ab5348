#include "row.h"

#include <algorithm>

#include "base/statistics.h"

namespace stiefel::bench {

void add_lack(Row& row, const std::string& what) { row.lacks += (row.lacks.empty() ? "" : ", ") + what; }

void summarize(Row& row) {
  std::vector<double> all;
  for (const auto& samples : row.rounds) all.insert(all.end(), samples.begin(), samples.end());
  if (all.empty()) return;
  row.median_ms = 1e3 * base::median(all);
  row.spread_ms = 1e3 * (base::quantile(all, 0.75) - base::quantile(all, 0.25));
  row.least_ms = 1e3 * *std::min_element(all.begin(), all.end());
}

double ratio_in_rounds(const Row& row, const Row& base) {
  std::vector<double> ratios;
  for (size_t round = 0; round < std::min(row.rounds.size(), base.rounds.size()); ++round) {
    if (row.rounds[round].empty() || base.rounds[round].empty()) continue;
    ratios.push_back(base::median(row.rounds[round]) / base::median(base.rounds[round]));
  }
  return ratios.empty() ? kUnknown : base::median(ratios);
}

void fill_ratios(std::vector<Row>& rows) {
  const auto* sgd = find_row(rows, "sgd");
  const auto* cayley_sgd = find_row(rows, "cayley-sgd");
  for (auto& row : rows) {
    row.ratio_to_sgd = sgd != nullptr ? ratio_in_rounds(row, *sgd) : kUnknown;
    row.ratio_to_cayley_sgd = cayley_sgd != nullptr ? ratio_in_rounds(row, *cayley_sgd) : kUnknown;
  }
}

const Row* find_row(const std::vector<Row>& rows, const std::string& method) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.method == method; });
  return found == rows.end() ? nullptr : &*found;
}

std::vector<Row> only(const std::vector<Row>& rows, const std::vector<std::string>& names) {
  if (names.empty()) return rows;
  std::vector<Row> chosen;
  for (const auto& name : names) {
    if (const auto* row = find_row(rows, name)) chosen.push_back(*row);
  }
  return chosen;
}

}  // namespace stiefel::bench
