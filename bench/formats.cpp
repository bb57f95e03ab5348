#include "formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/json.h"
#include "base/markdown.h"
#include "base/output_format.h"
#include "base/statistics.h"
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

std::string percent(double value) { return std::isnan(value) ? "" : fmt::format("{:.0f} %", 100 * value); }

/// What a row says in words: why it failed, or what the method lacks and how it was measured.
std::string remarks(const Row& row) {
  if (!row.failure.empty()) return "failed: " + row.failure;
  return row.lacks + (row.lacks.empty() || row.note.empty() ? "" : "; ") + row.note;
}

using nlohmann::ordered_json;

ordered_json json_number(double value) { return std::isnan(value) ? ordered_json() : ordered_json(value); }

ordered_json json_text(const std::string& value) {
  return value.empty() ? ordered_json() : ordered_json(value);
}

/// One value of a row for people.
struct ShownColumn {
  const char* heading;
  bool is_number;  ///< to the right
  std::string (*text)(const Row&);
  bool (*is_there)(const Row&) = nullptr;  ///< null: always shown; else where a row has it
};

const ShownColumn kShownColumns[] = {
    {"method", false, [](const Row& row) { return row.method; }},
    {"ms", true, [](const Row& row) { return milliseconds(row.median_ms); }},
    {"spread", true, [](const Row& row) { return milliseconds(row.spread_ms); }},
    {"least", true, [](const Row& row) { return milliseconds(row.least_ms); }},
    {"eager ms", true, [](const Row& row) { return milliseconds(row.eager_ms); },
     [](const Row& row) { return !std::isnan(row.eager_ms); }},
    {"× SGD", true, [](const Row& row) { return ratio(row.ratio_to_sgd); }},
    {"× Cayley SGD", true, [](const Row& row) { return ratio(row.ratio_to_cayley_sgd); }},
    {"GFLOP/s", true,
     [](const Row& row) { return std::isnan(row.gflops) ? "" : fmt::format("{:.1f}", row.gflops); },
     [](const Row& row) { return !std::isnan(row.gflops); }},
    {"of GEMM", true, [](const Row& row) { return percent(row.of_gemm); },
     [](const Row& row) { return !std::isnan(row.of_gemm); }},
    {"run", true, [](const Row& row) { return percent(row.of_gemm_executed); },
     [](const Row& row) { return !std::isnan(row.of_gemm_executed); }},
    {"‖XᵀX−I‖", true, [](const Row& row) { return defect(row.defect); }},
    {"flop", false, [](const Row& row) { return row.operations; }},
    {"lacks", false, remarks},
};

/// Where an unknown value is written too.
enum class Presence { kAlways, kInCsv, kWhereKnown };

/// One value of a row for programs.
struct ValueColumn {
  const char* name;
  ordered_json (*value)(const Row&);
  Presence presence;
};

ordered_json round_milliseconds(const Row& row) {
  auto all = ordered_json::array();
  for (const auto& samples : row.rounds) all.push_back(1e3 * base::median(samples));
  return all.empty() ? ordered_json() : all;
}

const ValueColumn kValueColumns[] = {
    {"method", [](const Row& row) { return ordered_json(row.method); }, Presence::kAlways},
    {"median_ms", [](const Row& row) { return json_number(row.median_ms); }, Presence::kAlways},
    {"spread_ms", [](const Row& row) { return json_number(row.spread_ms); }, Presence::kAlways},
    {"ratio_to_sgd", [](const Row& row) { return json_number(row.ratio_to_sgd); }, Presence::kAlways},
    {"ratio_to_cayley_sgd", [](const Row& row) { return json_number(row.ratio_to_cayley_sgd); },
     Presence::kAlways},
    {"defect", [](const Row& row) { return json_number(row.defect); }, Presence::kAlways},
    {"operations", [](const Row& row) { return ordered_json(row.operations); }, Presence::kAlways},
    {"lacks", [](const Row& row) { return ordered_json(row.lacks); }, Presence::kAlways},
    {"steps_per_epoch",
     [](const Row& row) {
       return row.steps_per_epoch > 0 ? ordered_json(row.steps_per_epoch) : ordered_json();
     },
     Presence::kInCsv},
    {"eager_ms", [](const Row& row) { return json_number(row.eager_ms); }, Presence::kWhereKnown},
    {"workload", [](const Row& row) { return json_text(row.workload); }, Presence::kWhereKnown},
    {"least_ms", [](const Row& row) { return json_number(row.least_ms); }, Presence::kWhereKnown},
    {"gflops", [](const Row& row) { return json_number(row.gflops); }, Presence::kWhereKnown},
    {"of_gemm", [](const Row& row) { return json_number(row.of_gemm); }, Presence::kWhereKnown},
    {"of_gemm_executed", [](const Row& row) { return json_number(row.of_gemm_executed); },
     Presence::kWhereKnown},
    {"note", [](const Row& row) { return json_text(row.note); }, Presence::kWhereKnown},
    {"failure", [](const Row& row) { return json_text(row.failure); }, Presence::kWhereKnown},
    {"rounds_ms", round_milliseconds, Presence::kWhereKnown},
};

std::vector<const ShownColumn*> columns_of(const std::vector<Row>& rows) {
  std::vector<const ShownColumn*> chosen;
  for (const auto& column : kShownColumns) {
    if (column.is_there == nullptr || std::any_of(rows.begin(), rows.end(), column.is_there)) {
      chosen.push_back(&column);
    }
  }
  return chosen;
}

/// The rows with the columns that some of them have.
base::Table shown_table(const std::vector<Row>& rows) {
  const auto columns = columns_of(rows);
  std::vector<std::string> headings;
  std::string alignment;
  for (const auto* column : columns) {
    headings.emplace_back(column->heading);
    alignment += column->is_number ? 'r' : 'l';
  }
  base::Table table(headings, alignment);
  for (const auto& row : rows) {
    std::vector<std::string> cells;
    for (const auto* column : columns) cells.push_back(column->text(row));
    table.add(cells);
  }
  return table;
}

/// An unknown value is empty.
std::string csv_text(const ordered_json& value) {
  if (value.is_null()) return "";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string as_csv(const std::vector<Row>& rows) {
  std::vector<const ValueColumn*> columns;
  std::vector<std::string> names;
  for (const auto& column : kValueColumns) {
    const bool is_list = column.value == round_milliseconds;
    const bool known =
        std::any_of(rows.begin(), rows.end(), [&](const Row& row) { return !column.value(row).is_null(); });
    if (is_list || (column.presence == Presence::kWhereKnown && !known)) continue;
    columns.push_back(&column);
    names.emplace_back(column.name);
  }
  base::Table table(names);
  for (const auto& row : rows) {
    std::vector<std::string> fields;
    for (const auto* column : columns) fields.push_back(csv_text(column->value(row)));
    table.add(fields);
  }
  return base::to_csv(table);
}

std::string as_json(const std::vector<Row>& rows) {
  auto all = ordered_json::array();
  for (const auto& row : rows) {
    ordered_json one;
    for (const auto& column : kValueColumns) {
      auto value = column.value(row);
      if (column.presence == Presence::kAlways || !value.is_null()) one[column.name] = std::move(value);
    }
    all.push_back(one);
  }
  return base::dump_json(all);
}

}  // namespace

std::string format_rows(const std::vector<Row>& rows, const std::string& format) {
  switch (base::from_name(base::kOutputFormats, format, "--format")) {
    case base::OutputFormat::kMarkdown:
      return base::to_markdown(shown_table(rows));
    case base::OutputFormat::kCsv:
      return as_csv(rows);
    case base::OutputFormat::kJson:
      return as_json(rows);
    case base::OutputFormat::kTable:
      break;
  }
  return shown_table(rows).text(2);
}

}  // namespace stiefel::bench
