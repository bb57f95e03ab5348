#include "formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/table.h"

namespace stiefel::bench {

namespace {

/// Four figures that a person can read: 0.0123, 1.23, 123.
std::string milliseconds(double value) {
  if (std::isnan(value)) return "–";
  const int digits = value < 0.1 ? 4 : value < 1 ? 3 : value < 10 ? 2 : value < 100 ? 1 : 0;
  return fmt::format("{:.{}f}", value, digits);
}

std::string ratio(double value) {
  return std::isnan(value) ? "–" : fmt::format("{:.{}f}", value, value < 100 ? 2 : 0);
}

std::string defect(double value) { return std::isnan(value) ? "–" : fmt::format("{:.1e}", value); }

/// Whether there are steps that were launched kernel by kernel beside those of a graph.
bool has_eager(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) { return !std::isnan(row.eager_ms); });
}

bool has_failures(const std::vector<Row>& rows) {
  return std::any_of(rows.begin(), rows.end(), [](const Row& row) { return !row.failure.empty(); });
}

/// A text as a field of CSV.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + '"';
}

/// A text as a cell of Markdown.
std::string in_markdown(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::vector<std::string> header(bool eager) {
  std::vector<std::string> names{"method", "ms", "spread"};
  if (eager) names.push_back("eager ms");
  for (const char* name : {"× SGD", "× Cayley SGD", "‖XᵀX−I‖", "flop", "lacks"}) names.emplace_back(name);
  return names;
}

std::vector<std::string> cells(const Row& row, bool eager) {
  std::vector<std::string> all{row.method, milliseconds(row.median_ms), milliseconds(row.spread_ms)};
  if (eager) all.push_back(milliseconds(row.eager_ms));
  for (auto& cell : {ratio(row.ratio_to_sgd), ratio(row.ratio_to_cayley_sgd), defect(row.defect),
                     row.operations, row.failure.empty() ? row.lacks : "failed: " + row.failure}) {
    all.push_back(cell);
  }
  return all;
}

std::string as_table(const std::vector<Row>& rows) {
  const bool eager = has_eager(rows);
  base::Table table(header(eager));
  for (const auto& row : rows) table.add(cells(row, eager));
  std::ostringstream text;
  table.print(text);
  return text.str();
}

std::string as_markdown(const std::vector<Row>& rows) {
  const bool eager = has_eager(rows);
  auto text = fmt::format("| {} |\n|---|{}---:|---:|---:|---:|---:|---|---|\n",
                          fmt::join(header(eager), " | "), eager ? "---:|" : "");
  for (const auto& row : rows) {
    auto all = cells(row, eager);
    for (auto& cell : all) cell = in_markdown(cell);
    text += fmt::format("| {} |\n", fmt::join(all, " | "));
  }
  return text;
}

std::string as_csv(const std::vector<Row>& rows) {
  const bool eager = has_eager(rows);
  const bool failures = has_failures(rows);
  std::string text = fmt::format(
      "method,median_ms,spread_ms,ratio_to_sgd,ratio_to_cayley_sgd,defect,operations,lacks,steps_per_epoch{}{"
      "}\n",
      eager ? ",eager_ms" : "", failures ? ",failure" : "");
  const auto number = [](double value) { return std::isnan(value) ? "" : fmt::format("{}", value); };
  for (const auto& row : rows) {
    text += fmt::format("{},{},{},{},{},{},\"{}\",\"{}\",{}{}{}\n", row.method, number(row.median_ms),
                        number(row.spread_ms), number(row.ratio_to_sgd), number(row.ratio_to_cayley_sgd),
                        number(row.defect), row.operations, row.lacks,
                        row.steps_per_epoch > 0 ? std::to_string(row.steps_per_epoch) : "",
                        eager ? "," + number(row.eager_ms) : "", failures ? "," + quoted(row.failure) : "");
  }
  return text;
}

std::string as_json(const std::vector<Row>& rows) {
  const auto number = [](double value) {
    return std::isnan(value) ? nlohmann::ordered_json() : nlohmann::ordered_json(value);
  };
  auto all = nlohmann::ordered_json::array();
  for (const auto& row : rows) {
    nlohmann::ordered_json one{{"method", row.method},
                               {"median_ms", number(row.median_ms)},
                               {"spread_ms", number(row.spread_ms)},
                               {"ratio_to_sgd", number(row.ratio_to_sgd)},
                               {"ratio_to_cayley_sgd", number(row.ratio_to_cayley_sgd)},
                               {"defect", number(row.defect)},
                               {"operations", row.operations},
                               {"lacks", row.lacks}};
    if (!std::isnan(row.eager_ms)) one["eager_ms"] = row.eager_ms;
    if (row.steps_per_epoch > 0) one["steps_per_epoch"] = row.steps_per_epoch;
    if (!row.failure.empty()) one["failure"] = row.failure;
    all.push_back(one);
  }
  return all.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

std::string format_rows(const std::vector<Row>& rows, const std::string& format) {
  if (format == "md") return as_markdown(rows);
  if (format == "csv") return as_csv(rows);
  if (format == "json") return as_json(rows);
  return as_table(rows);
}

std::vector<std::string> row_formats() { return {"table", "csv", "json", "md"}; }

}  // namespace stiefel::bench
