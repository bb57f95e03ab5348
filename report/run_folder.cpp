#include "report/run_folder.h"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "base/files.h"
#include "base/printable.h"
#include "record/kept_run.h"
#include "record/run_facts.h"

namespace stiefel::report {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

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

void show_facts(const Json& json, RunFolder& run) {
  run.name = text(json, "name");
  for (const auto& commit : record::commits_of(json))
    run.commit += (run.commit.empty() ? "" : ", then ") + commit;
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

}  // namespace

RunFolder read_run_folder(const fs::path& folder) {
  auto read = record::read_run_or_kept(folder);
  if (read.epochs.empty()) {
    throw std::runtime_error(
        base::printable(read.metrics_file) +
        ": no epoch is finished yet; wait for the first one, or leave this run out of the report");
  }
  RunFolder run;
  run.folder = folder;
  show_facts(read.facts, run);
  if (run.name.empty()) run.name = read.name;
  for (const auto& entry : read.settings) run.settings.emplace_back(entry.key, entry.value());
  run.epochs = std::move(read.epochs);
  run.warnings = std::move(read.warnings);
  if (const auto file = folder / record::kCertifiedFile; fs::exists(file)) {
    run.certified = record::parse_certified(file, base::read_file(file));
  }
  return run;
}

}  // namespace stiefel::report
