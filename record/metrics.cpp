#include "metrics.h"

#include <fmt/format.h>

#include <cmath>
#include <stdexcept>

#include "base/excerpt.h"
#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"

namespace stiefel::record {

namespace fs = std::filesystem;

namespace {

constexpr const char* kMetricsFile = "metrics.jsonl";

template <auto pointer>
struct ColumnOf {
  static constexpr auto member = pointer;
};

/// Calls visitor(name, ColumnOf<member>) in the order of the columns: the one list of them.
template <class Visitor>
void visit_columns(Visitor&& visitor) {
  visitor("epoch", ColumnOf<&EpochMetrics::epoch>());
  visitor("step", ColumnOf<&EpochMetrics::step>());
  visitor("train_loss", ColumnOf<&EpochMetrics::train_loss>());
  visitor("train_error", ColumnOf<&EpochMetrics::train_error>());
  visitor("validation_error", ColumnOf<&EpochMetrics::validation_error>());
  visitor("test_loss", ColumnOf<&EpochMetrics::test_loss>());
  visitor("test_error", ColumnOf<&EpochMetrics::test_error>());
  visitor("rate_manifold", ColumnOf<&EpochMetrics::rate_manifold>());
  visitor("rate_euclidean", ColumnOf<&EpochMetrics::rate_euclidean>());
  visitor("seconds", ColumnOf<&EpochMetrics::seconds>());
  visitor("epoch_seconds", ColumnOf<&EpochMetrics::epoch_seconds>());
  visitor("images_per_second", ColumnOf<&EpochMetrics::images_per_second>());
  visitor("defect_max", ColumnOf<&EpochMetrics::defect_max>());
  visitor("defect_mean", ColumnOf<&EpochMetrics::defect_mean>());
  visitor("skipped_steps", ColumnOf<&EpochMetrics::skipped_steps>());
}

/// Calls visitor(name, value) for the values of an epoch.
template <class Self, class Visitor>
void visit_metrics(Self& epoch, Visitor&& visitor) {
  visit_columns([&](const char* name, auto column) { visitor(name, epoch.*(column.member)); });
}

template <class T>
void put(nlohmann::json& json, const char* name, const T& value) {
  json[name] = value;
}
template <class T>
void put(nlohmann::json& json, const char* name, const std::optional<T>& value) {
  if (value) json[name] = *value;
}

void assign(double number, double& value) { value = number; }
void assign(double number, int64_t& value) {
  constexpr double kMost = 1e15;
  if (std::isnan(number)) return;
  if (!(std::abs(number) <= kMost)) throw std::invalid_argument("too large");
  value = static_cast<int64_t>(number);
}
template <class T>
void assign(double number, std::optional<T>& value) {
  assign(number, value.emplace());
}

// A loss that is not finite is null in JSON.
template <class T>
void take(const nlohmann::json& found, T& value) {
  assign(found.is_null() ? EpochMetrics::kMissing : found.get<double>(), value);
}

std::string cell(double value) { return fmt::format("{}", value); }
std::string cell(int64_t value) { return fmt::format("{}", value); }
template <class T>
std::string cell(const std::optional<T>& value) {
  return value ? cell(*value) : "";
}

[[noreturn]] void fail_line(const fs::path& file, size_t line, const std::string& what) {
  throw std::runtime_error(fmt::format("{}: line {}: {}", base::printable(file), line, what));
}

void append(std::vector<EpochMetrics>& epochs, EpochMetrics epoch, size_t line,
            std::vector<std::string>& warnings) {
  if (epoch.epoch == 0) epoch.epoch = epochs.empty() ? 1 : epochs.back().epoch + 1;
  const size_t before = epochs.size();
  while (!epochs.empty() && epochs.back().epoch >= epoch.epoch) epochs.pop_back();
  if (epochs.size() < before) {
    warnings.push_back(
        fmt::format("{}, line {} goes back to an earlier epoch; {} earlier line(s) were set aside.",
                    kMetricsFile, line, before - epochs.size()));
  }
  if (std::isnan(epoch.seconds)) {
    epoch.seconds = (epochs.empty() ? 0 : epochs.back().seconds) + epoch.epoch_seconds;
  }
  epochs.push_back(epoch);
}

}  // namespace

void to_json(nlohmann::json& json, const EpochMetrics& metrics) {
  json = nlohmann::json::object();
  visit_metrics(metrics, [&](const char* name, const auto& value) { put(json, name, value); });
}

void from_json(const nlohmann::json& json, EpochMetrics& metrics) {
  visit_metrics(metrics, [&](const char* name, auto& value) {
    const auto found = json.find(name);
    if (found == json.end()) return;
    if (!found->is_null() && !found->is_number()) {
      throw std::invalid_argument(
          fmt::format("\"{}\" must be a number or null, found {}", name, base::excerpt(found->dump())));
    }
    try {
      take(*found, value);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(
          fmt::format("\"{}\" is {}, {}", name, base::excerpt(found->dump()), error.what()));
    }
  });
}

const std::vector<MetricColumn>& metric_columns() {
  static const auto all = [] {
    std::vector<MetricColumn> columns;
    visit_columns([&](const char* name, auto column) {
      columns.push_back({name, metric<column.member>, [](EpochMetrics& epoch, double value) {
                           assign(value, epoch.*(decltype(column)::member));
                         }});
    });
    return columns;
  }();
  return all;
}

std::string metrics_lines(const std::vector<EpochMetrics>& history) {
  std::string lines;
  for (const auto& metrics : history) lines += nlohmann::json(metrics).dump() + '\n';
  return lines;
}

void write_metrics(const fs::path& folder, const std::vector<EpochMetrics>& history) {
  std::string table;
  for (const auto& column : metric_columns()) table += (table.empty() ? "" : ",") + std::string(column.name);
  table += '\n';
  for (const auto& metrics : history) {
    std::string row;
    visit_metrics(metrics, [&](const char*, const auto& value) { row += cell(value) + ','; });
    row.back() = '\n';
    table += row;
  }
  base::write_file(folder / kMetricsFile, metrics_lines(history));
  base::write_file(folder / "metrics.csv", table);
}

std::vector<EpochMetrics> read_metrics(const fs::path& folder, std::vector<std::string>& warnings) {
  const auto file = folder / kMetricsFile;
  return parse_metrics(file, fs::exists(file) ? base::read_file(file) : "", warnings);
}

std::vector<EpochMetrics> parse_metrics(const fs::path& file, const std::string& content,
                                        std::vector<std::string>& warnings) {
  std::vector<EpochMetrics> epochs;
  size_t line = 0;
  for (size_t begin = 0; begin < content.size();) {
    ++line;
    const size_t newline = content.find('\n', begin);
    const bool whole = newline != std::string::npos;
    const size_t end = whole ? newline : content.size();
    const std::string piece = content.substr(begin, end - begin);
    begin = end + 1;
    if (piece.find_first_not_of(" \t\r") == std::string::npos) continue;
    nlohmann::json json;
    try {
      json = base::parse_json(piece);
    } catch (const base::JsonError& error) {
      if (!whole) {
        warnings.push_back(fmt::format("{}, line {} was cut short while it was written and is left out.",
                                       kMetricsFile, line));
        break;
      }
      fail_line(file, line,
                fmt::format("{} at column {}; every line must be one whole object: mend or delete it",
                            error.reason, error.column));
    }
    if (!json.is_object()) fail_line(file, line, "expected a JSON object; delete the line");
    try {
      append(epochs, json.get<EpochMetrics>(), line, warnings);
    } catch (const std::invalid_argument& error) {
      fail_line(file, line, fmt::format("{}; mend or delete the line", error.what()));
    }
  }
  return epochs;
}

const EpochMetrics& best_epoch(const std::vector<EpochMetrics>& epochs) {
  const auto* best = &epochs.front();
  for (const auto& epoch : epochs) {
    const double error = epoch.deciding_error();
    // NaN is never the least.
    if (error < best->deciding_error() || (std::isnan(best->deciding_error()) && !std::isnan(error)))
      best = &epoch;
  }
  return *best;
}

}  // namespace stiefel::record
