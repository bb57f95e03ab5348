#include "metrics.h"

#include <fmt/format.h>

#include "base/files.h"

namespace stiefel::train {

namespace {

/// Calls visitor(name, member) in the order of the columns.
template <class Self, class Visitor>
void visit(Self& m, Visitor&& visitor) {
  visitor("epoch", m.epoch);
  visitor("step", m.step);
  visitor("train_loss", m.train_loss);
  visitor("train_error", m.train_error);
  visitor("validation_error", m.validation_error);
  visitor("test_loss", m.test_loss);
  visitor("test_error", m.test_error);
  visitor("rate_manifold", m.rate_manifold);
  visitor("rate_euclidean", m.rate_euclidean);
  visitor("seconds", m.seconds);
  visitor("epoch_seconds", m.epoch_seconds);
  visitor("images_per_second", m.images_per_second);
  visitor("defect_max", m.defect_max);
  visitor("defect_mean", m.defect_mean);
  visitor("skipped_steps", m.skipped_steps);
}

template <class T>
void put(nlohmann::json& json, const char* name, const T& value) {
  json[name] = value;
}
void put(nlohmann::json& json, const char* name, const std::optional<double>& value) {
  if (value) json[name] = *value;
}

void take(const nlohmann::json& json, const char* name, int64_t& value) {
  if (json.contains(name)) value = json[name].get<int64_t>();
}
void take(const nlohmann::json& json, const char* name, double& value) {
  // A loss that is not finite is null in JSON.
  if (json.contains(name)) value = json[name].is_null() ? NAN : json[name].get<double>();
}
void take(const nlohmann::json& json, const char* name, std::optional<double>& value) {
  if (json.contains(name)) value = json[name].is_null() ? NAN : json[name].get<double>();
}

std::string cell(double value) { return fmt::format("{}", value); }
std::string cell(int64_t value) { return fmt::format("{}", value); }
std::string cell(const std::optional<double>& value) { return value ? cell(*value) : ""; }

}  // namespace

void to_json(nlohmann::json& json, const EpochMetrics& metrics) {
  json = nlohmann::json::object();
  visit(metrics, [&](const char* name, const auto& value) { put(json, name, value); });
}

void from_json(const nlohmann::json& json, EpochMetrics& metrics) {
  visit(metrics, [&](const char* name, auto& value) { take(json, name, value); });
}

void write_metrics(const std::filesystem::path& folder, const std::vector<EpochMetrics>& history) {
  std::string lines;
  std::string table;
  const EpochMetrics columns;
  visit(columns,
        [&](const char* name, const auto&) { table += (table.empty() ? "" : ",") + std::string(name); });
  table += '\n';
  for (const auto& metrics : history) {
    lines += nlohmann::json(metrics).dump() + '\n';
    std::string row;
    visit(metrics, [&](const char*, const auto& value) { row += cell(value) + ','; });
    row.back() = '\n';
    table += row;
  }
  base::write_file(folder / "metrics.jsonl", lines);
  base::write_file(folder / "metrics.csv", table);
}

}  // namespace stiefel::train
