#include "run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <tuple>

#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"

namespace stiefel::paper {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw std::runtime_error(
      fmt::format("{}: {}; restore it from a copy or move the run away", base::printable(file), what));
}

/// `lines_before` is how many lines of the file the text comes after.
json parse(const std::string& text, const fs::path& file, size_t lines_before = 0) {
  try {
    auto parsed = base::parse_json(text);
    if (parsed.is_object()) return parsed;
  } catch (const base::JsonError& error) {
    fail(file, fmt::format("line {}: {}", lines_before + error.line, error.reason));
  }
  fail(file, fmt::format("line {}: expected a JSON object", lines_before + 1));
}

/// What is read from a record later on is of the type that it is read as.
void check_types(const json& facts, const fs::path& file) {
  using Type = bool (json::*)() const noexcept;
  const std::tuple<const char*, Type, const char*> expected[] = {
      {"status", &json::is_string, "a string"},    {"device", &json::is_string, "a string"},
      {"seconds", &json::is_number, "a number"},   {"versions", &json::is_object, "an object"},
      {"hardware", &json::is_object, "an object"}, {"unitariness", &json::is_object, "an object"}};
  for (const auto& [name, is_right, type] : expected) {
    const auto found = facts.find(name);
    if (found != facts.end() && !((*found).*is_right)())
      fail(file, fmt::format("{} is {}, not {}", name, found->dump(), type));
  }
}

/// Whether nothing in the last `patience` epochs was better than before them.
bool has_stalled(const RunRecord& run) {
  const auto patience = run.config.patience;
  return patience > 0 && !run.epochs.empty() && run.epochs.back().epoch - run.best_epoch().epoch >= patience;
}

}  // namespace

bool RunRecord::finished() const { return facts.value("status", std::string()) == "finished"; }

const train::EpochMetrics& RunRecord::best_epoch() const {
  return *std::min_element(epochs.begin(), epochs.end(), [](const auto& a, const auto& b) {
    return a.deciding_error() < b.deciding_error();
  });
}

std::optional<RunRecord> read_run(const fs::path& folder) {
  const auto config = folder / "config.toml";
  const auto facts = folder / "run.json";
  if (!fs::exists(config) || !fs::exists(facts)) return std::nullopt;
  RunRecord record;
  record.folder = folder;
  record.config = train::config_from_toml(base::read_file(config), config.string());
  record.config.resolve();
  record.facts = parse(base::read_file(facts), facts);
  check_types(record.facts, facts);
  const auto metrics = folder / "metrics.jsonl";
  if (fs::exists(metrics)) {
    std::istringstream lines(base::read_file(metrics));
    size_t before = 0;
    for (std::string line; std::getline(lines, line); ++before) {
      if (line.empty()) continue;
      try {
        record.epochs.push_back(parse(line, metrics, before).get<train::EpochMetrics>());
      } catch (const json::exception& error) {
        fail(metrics, fmt::format("line {}: {}", before + 1, error.what()));
      }
    }
  }
  const bool measures = record.facts.contains("unitariness");
  const auto last = record.epochs.empty() ? 0 : record.epochs.back().epoch;
  if (record.finished() && !measures && last < record.config.epochs && !has_stalled(record)) {
    fail(metrics,
         fmt::format("ends at epoch {} of {}, but run.json says finished", last, record.config.epochs));
  }
  return record;
}

json provenance(const RunRecord& record) {
  const auto take = [&](const char* name) { return record.facts.value(name, json()); };
  const auto versions = record.facts.value("versions", json::object());
  return {{"folder", record.folder.string()},
          {"command", take("command")},
          {"commit", take("commit")},
          {"earlier", take("earlier")},
          {"hardware", take("hardware")},
          {"device", take("device")},
          {"precision", take("precision")},
          {"libtorch", versions.value("libtorch", json())},
          {"seed", take("seed")},
          {"seconds", take("seconds")},
          {"date", take("started")}};
}

}  // namespace stiefel::paper
