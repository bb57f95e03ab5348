#include "report/run_folder.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"
#include "commits.h"
#include "report/settings.h"

namespace stiefel::report {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

[[noreturn]] void fail(const fs::path& where, const std::string& what) {
  throw std::runtime_error(base::printable(where) + ": " + what);
}

/// Facts are shown, never computed with, so one of an unexpected type is shown as it stands.
std::string text(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || found->is_null()) return "";
  return found->is_string() ? found->get<std::string>() : found->dump();
}

double number(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : kMissing;
}

void read_facts(const fs::path& file, RunFolder& run) {
  const std::string content = base::read_file(file);
  Json json;
  try {
    json = base::parse_json(content);
  } catch (const base::JsonError& error) {
    fail(file, "line " + std::to_string(error.line) + ": " + error.reason +
                   "; restore the file from a copy, or leave this run out of the report");
  }
  if (!json.is_object()) fail(file, "line 1: expected a JSON object; is this a run folder?");
  run.name = text(json, "name");
  for (const auto& commit : commits_of(json)) run.commit += (run.commit.empty() ? "" : ", then ") + commit;
  run.version = text(json, "version");
  run.status = text(json, "status");
  run.started = text(json, "started");
  run.seconds = number(json, "seconds");
  run.seed = text(json, "seed");
  run.data = text(json, "data");
  run.model = text(json, "model");
  run.optim = text(json, "optim");
  run.parameters = number(json, "parameters");
  run.manifold_parameters = number(json, "manifold_parameters");
  run.manifold_matrices = number(json, "manifold_matrices");
  run.device = text(json, "device");
  if (const auto command = json.find("command"); command != json.end() && command->is_array()) {
    for (const auto& word : *command) {
      run.command.push_back(word.is_string() ? word.get<std::string>() : word.dump());
    }
  }
  if (const auto hardware = json.find("hardware"); hardware != json.end() && hardware->is_object()) {
    run.cpu = text(*hardware, "cpu");
    run.cores = number(*hardware, "cores");
    run.memory_gib = number(*hardware, "memory_gib");
    run.gpu = text(*hardware, "gpu");
  }
  if (const auto versions = json.find("versions"); versions != json.end() && versions->is_object()) {
    for (const auto& entry : versions->items()) {
      run.versions.emplace_back(entry.key(), text(*versions, entry.key().c_str()));
    }
  }
}

Epoch read_epoch(const fs::path& file, size_t line, const Json& json) {
  const std::string place = "line " + std::to_string(line) + ": ";
  if (!json.is_object()) fail(file, place + "expected a JSON object; delete the line");
  Epoch epoch;
  for (const auto& metric : metrics()) {
    const auto found = json.find(metric.key);
    if (found == json.end() || found->is_null()) continue;
    if (!found->is_number()) {
      fail(file, place + '"' + metric.key + "\" must be a number or null, found " + found->dump() +
                     "; mend or delete the line");
    }
    epoch.*metric.value = found->get<double>();
  }
  return epoch;
}

void append_epoch(RunFolder& run, size_t line, Epoch epoch) {
  auto& epochs = run.epochs;
  if (std::isnan(epoch.epoch)) epoch.epoch = epochs.empty() ? 1 : epochs.back().epoch + 1;
  // A resumed run may write an epoch anew: the later line is the one that the weights come from.
  const size_t before = epochs.size();
  while (!epochs.empty() && epochs.back().epoch >= epoch.epoch) epochs.pop_back();
  if (epochs.size() < before) {
    run.warnings.push_back("metrics.jsonl, line " + std::to_string(line) +
                           " goes back to an earlier epoch; " + std::to_string(before - epochs.size()) +
                           " earlier line(s) were set aside.");
  }
  if (std::isnan(epoch.seconds))
    epoch.seconds = (epochs.empty() ? 0 : epochs.back().seconds) + epoch.epoch_seconds;
  epochs.push_back(epoch);
}

void read_metrics(const fs::path& file, RunFolder& run) {
  const std::string content = fs::exists(file) ? base::read_file(file) : "";
  size_t line = 0;
  for (size_t begin = 0; begin < content.size();) {
    ++line;
    const size_t newline = content.find('\n', begin);
    const bool whole = newline != std::string::npos;
    const size_t end = whole ? newline : content.size();
    const std::string piece = content.substr(begin, end - begin);
    begin = end + 1;
    if (piece.find_first_not_of(" \t\r") == std::string::npos) continue;
    Json json;
    try {
      json = base::parse_json(piece);
    } catch (const base::JsonError& error) {
      if (!whole) {
        run.warnings.push_back("metrics.jsonl, line " + std::to_string(line) +
                               " was cut short while it was written and is left out.");
        break;
      }
      fail(file, "line " + std::to_string(line) + ": " + error.reason + " at column " +
                     std::to_string(error.column) +
                     "; every line must be one whole object: mend or delete it");
    }
    append_epoch(run, line, read_epoch(file, line, json));
  }
  if (run.epochs.empty()) {
    fail(file, "no epoch is finished yet; wait for the first one, or leave this run out of the report");
  }
}

}  // namespace

const std::vector<Metric>& metrics() {
  static const std::vector<Metric> all = {
      {"epoch", &Epoch::epoch},
      {"step", &Epoch::step},
      {"train_loss", &Epoch::train_loss},
      {"train_error", &Epoch::train_error},
      {"validation_error", &Epoch::validation_error},
      {"test_loss", &Epoch::test_loss},
      {"test_error", &Epoch::test_error},
      {"rate_manifold", &Epoch::rate_manifold},
      {"rate_euclidean", &Epoch::rate_euclidean},
      {"seconds", &Epoch::seconds},
      {"epoch_seconds", &Epoch::epoch_seconds},
      {"images_per_second", &Epoch::images_per_second},
      {"defect_max", &Epoch::defect_max},
      {"defect_mean", &Epoch::defect_mean},
      {"skipped_steps", &Epoch::skipped_steps},
  };
  return all;
}

RunFolder read_run_folder(const fs::path& folder) {
  std::error_code ignored;
  const auto kind = fs::status(folder, ignored).type();
  if (kind == fs::file_type::not_found) fail(folder, "no such folder; name the folder that --out was given");
  if (kind != fs::file_type::directory) fail(folder, "not a folder; name the run's folder, not a file in it");
  if (!fs::exists(folder / "run.json", ignored)) {
    fail(folder, "not a run folder (it has no run.json); name a folder that `stiefel train --out` wrote");
  }
  RunFolder run;
  run.folder = folder;
  read_facts(folder / "run.json", run);
  if (run.name.empty()) {
    // "runs/a/" ends in an empty name.
    const fs::path plain = fs::absolute(folder).lexically_normal();
    run.name = (plain.has_filename() ? plain : plain.parent_path()).filename().string();
  }
  if (fs::exists(folder / "config.toml", ignored)) {
    run.settings = parse_settings(base::read_file(folder / "config.toml"));
  } else {
    run.warnings.push_back("The folder has no config.toml, so its settings are not shown.");
  }
  read_metrics(folder / "metrics.jsonl", run);
  return run;
}

}  // namespace stiefel::report
