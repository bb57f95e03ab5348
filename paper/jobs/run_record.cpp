#include "run_record.h"

#include <fmt/format.h>

#include <tuple>

#include "record/damaged_run.h"
#include "record/kept_run.h"
#include "train/resolve_config.h"

namespace stiefel::paper {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

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
      throw record::DamagedRun(file, fmt::format("{} is {}, not {}", name, found->dump(), type));
  }
}

/// A finished run has all its epochs, or has stopped early.
void check_epochs(const RunRecord& run) {
  if (!run.finished() || run.facts.contains("unitariness")) return;
  const auto last = run.epochs.empty() ? 0 : run.epochs.back().epoch;
  if (last >= run.config.epochs) return;
  if (last > 0 && record::has_stalled(last, run.best_epoch().epoch, run.config.patience)) return;
  throw record::DamagedRun(
      run.metrics_file, fmt::format("ends at epoch {} of {}, but {} says finished", last, run.config.epochs,
                                    run.facts_file.filename().string()));
}

}  // namespace

bool RunRecord::finished() const { return facts.value("status", std::string()) == "finished"; }

std::optional<RunRecord> read_run_record(const fs::path& path) {
  const bool is_folder = fs::exists(path / "config.toml") && fs::exists(path / "run.json");
  if (!is_folder && !record::is_kept_run(path)) return std::nullopt;
  RunRecord record{record::read_run_or_kept(path), {}};
  record.config = record::config_from_entries(record.settings, record.config_file.string());
  train::resolve(record.config);
  check_types(record.facts, record.facts_file);
  check_epochs(record);
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
