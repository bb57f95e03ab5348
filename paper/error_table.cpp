#include "error_table.h"

#include <fmt/format.h>

#include <cmath>

#include "paper/jobs/cell_values.h"
#include "recipes.h"

namespace stiefel::paper {

Experiment error_table(const std::string& name, const std::string& data, const std::string& data_title,
                       const std::vector<std::vector<double>>& errors) {
  Experiment table;
  table.name = name;
  table.title = fmt::format("classification errors (%) on {}", data_title);
  table.claim = "WRN-28-10 trained with Cayley ADAM achieves the best error rate.";
  table.test =
      "Cayley ADAM has the least error of the four methods on wrn-28-10, and of all cells that were run.";
  table.note =
      "The last epoch's test error; flips and reflect-padded crops (the paper names flips alone); ADAM's "
      "decay apart from the gradient, as AdamW has it (the paper does not tell).";
  table.subject = "method";
  table.draws_columns = true;
  const std::vector<std::string> networks{"vgg-13", "vgg-16", "vgg-19", "wrn-52-1", "wrn-16-4", "wrn-28-10"};
  for (size_t m = 0; m < main_methods().size(); ++m) {
    for (size_t n = 0; n < networks.size(); ++n) {
      const auto& method = main_methods()[m];
      table.cells.push_back({method,
                             networks[n],
                             Style::kPercent,
                             image_recipe(method, data, networks[n]),
                             last_test_error,
                             {{errors.at(m).at(n), ""}}});
    }
  }
  table.judge = [](const Results& results) -> Verdict {
    const auto best = results.mean("cayley-adam", "wrn-28-10");
    if (!best) return {Verdict::Kind::kOpen, "Cayley ADAM on wrn-28-10 has not been run"};
    for (const auto& method : main_methods()) {
      if (!results.mean(method, "wrn-28-10"))
        return {Verdict::Kind::kOpen, fmt::format("{} on wrn-28-10 has not been run", method)};
    }
    if (!std::isfinite(*best)) return diverged("Cayley ADAM on wrn-28-10");
    int64_t empty = 0;
    for (const auto& result : results.cells) {
      const auto error = result.mean();
      empty += error ? 0 : 1;
      if (error && or_worst(*error) < *best) {
        return {Verdict::Kind::kNotBorneOut,
                fmt::format("{} on {} has {:.2f} %, Cayley ADAM on wrn-28-10 {:.2f} %", result.cell.row,
                            result.cell.column, *error, *best)};
      }
    }
    return {Verdict::Kind::kBorneOut,
            fmt::format("{:.2f} %{}", *best, empty ? fmt::format("; {} other cells are empty", empty) : "")};
  };
  return table;
}

}  // namespace stiefel::paper
