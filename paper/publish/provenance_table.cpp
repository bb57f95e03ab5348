#include "provenance_table.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "paper/jobs/cached_results.h"
#include "paper/jobs/cell_values.h"
#include "record/run_facts.h"

namespace stiefel::paper {

namespace {

using nlohmann::json;

constexpr size_t kCommitLength = 7;
constexpr size_t kDayLength = 10;  // 2026-01-31, of a time in ISO 8601

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

/// Of facts that have the kind of device, and the hardware's names.
std::string device_of(const json& facts) {
  const auto device = text(facts, "device");
  const auto hardware = facts.value("hardware", json::object());
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

std::string commits(const json& facts) {
  auto all = record::commits_of(facts);
  for (auto& commit : all) commit = short_commit(commit);
  return fmt::format("{}", fmt::join(all, ", then "));
}

}  // namespace

std::string machine_of(const json& origin) {
  if (!origin.is_object()) return {};
  return fmt::format("{} with LibTorch {} in {}", device_of(origin), text(origin, "libtorch"),
                     text(origin, "precision"));
}

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
          device_of(record.facts),
          text(versions, "libtorch"),
          commits(record.facts),
          text(record.facts, "started").substr(0, kDayLength)};
}

std::string computed_line(const Results& computed) {
  json origin = json::object();
  for (const auto& result : computed.cells) {
    if (result.measured.empty()) continue;
    origin = result.measured.front().origin;
    break;
  }
  std::vector<std::string> parts;
  const auto add = [&](const char* before, const std::string& value) {
    if (!value.empty()) parts.push_back(before + value);
  };
  const auto seeds = seeds_of(computed);
  if (seeds > 0) parts.push_back(fmt::format("{} {}", seeds, seeds == 1 ? "seed" : "seeds"));
  add("", device_of(origin));
  add("", text(origin, "precision"));
  add("LibTorch ", text(origin, "libtorch"));
  add("commit ", short_commit(text(origin, "commit")));
  add("", text(origin, "date").substr(0, kDayLength));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace stiefel::paper
