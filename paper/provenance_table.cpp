#include "provenance_table.h"

#include <fmt/format.h>

#include <cmath>

#include "readings.h"

namespace stiefel::paper {

namespace {

using nlohmann::json;

constexpr size_t kCommitLength = 7;

/// Facts are shown, never computed with, so one of an unexpected type is left out.
std::string text(const json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string number(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : "";
}

/// Three digits, or whole seconds.
std::string time(double seconds) { return number(seconds, seconds < 100 ? "{:#.3g}" : "{:.0f}"); }

std::string method_of(const RunRecord& record) {
  const auto part = record.facts.find("unitariness");
  if (part == record.facts.end()) return record.config.method_name();
  const bool closed = part->value("closed", false);
  return fmt::format("{}, {}", text(*part, "form"),
                     closed ? "closed form" : fmt::format("s = {}", part->value("rounds", json()).dump()));
}

/// The defect of the orthonormal weights after the last epoch, or what a measurement of unitariness found.
double defect_of(const RunRecord& record) {
  if (record.epochs.empty()) return mean_defect(record);
  return record.epochs.back().defect_max.value_or(NAN);
}

std::string device_of(const RunRecord& record) {
  const auto device = record.device();
  const auto hardware = record.facts.value("hardware", json::object());
  const auto name = text(hardware, device.rfind("cuda", 0) == 0 ? "gpu" : "cpu");
  return name.empty() ? device : name;
}

/// 0123456789ab-dirty as 0123456-dirty; what is no hash stays as it is.
std::string short_commit(const std::string& commit) {
  const auto end = commit.find_first_not_of("0123456789abcdef");
  const auto hash = commit.substr(0, end);
  if (hash.size() <= kCommitLength) return commit;
  return hash.substr(0, kCommitLength) + (end == std::string::npos ? "" : commit.substr(end));
}

}  // namespace

const std::vector<ProvenanceColumn>& provenance_columns() {
  static const std::vector<ProvenanceColumn> all{
      {"data", false},         {"network", false}, {"method", false},
      {"seed", true},          {"epochs", true},   {"last test error", true},
      {"defect at end", true}, {"seconds", true},  {"s/epoch", true},
      {"precision", false},    {"device", false},  {"LibTorch", false},
      {"commit", false},       {"date", false}};
  return all;
}

std::vector<std::string> provenance_row(const RunRecord& record) {
  const auto& config = record.config;
  const auto found = record.facts.find("seconds");
  const auto versions = record.facts.value("versions", json::object());
  return {config.task_name(),
          config.model,
          method_of(record),
          fmt::format("{}", config.seed),
          record.epochs.empty() ? "" : fmt::format("{}", record.epochs.back().epoch),
          number(last_test_error(record), "{:.2f}"),
          number(defect_of(record), "{:.1e}"),
          time(found != record.facts.end() && found->is_number() ? found->get<double>() : NAN),
          time(epoch_seconds(record)),
          text(record.facts, "precision"),
          device_of(record),
          text(versions, "libtorch"),
          short_commit(text(record.facts, "commit")),
          text(record.facts, "started").substr(0, 10)};
}

}  // namespace stiefel::paper
