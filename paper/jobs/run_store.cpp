#include "run_store.h"

#include <map>
#include <stdexcept>
#include <utility>

#include "base/printable.h"
#include "record/checkpoint.h"
#include "record/kept_run.h"

namespace stiefel::paper {

namespace fs = std::filesystem;

RunStore::RunStore(const fs::path& out, Scale scale) : folder_(out / to_string(scale)) {
  if (!fs::is_directory(folder_)) return;
  // By name, so that the choice is the same every time. A folder comes before a kept run of its name.
  std::map<std::pair<std::string, bool>, fs::path> places;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const auto& path = entry.path();
    if (entry.is_directory()) places[{path.filename().string(), false}] = path;
    if (record::is_kept_run(path)) places[{path.stem().string(), true}] = path;
  }
  for (const auto& [name, path] : places) {
    const bool is_file = name.second;
    if (is_file && !records_.empty() && records_.back().name == name.first) continue;  // both are one run
    try {
      if (auto record = read_run_record(path)) records_.push_back(std::move(*record));
    } catch (const std::exception& error) {
      complaints_.push_back("left out " + base::printable(path) + ": " + error.what());
    }
  }
}

bool matches(const RunRecord& record, const RunSpec& spec) {
  if (record.facts.contains("unitariness") != spec.unitariness.has_value()) return false;
  if (spec.unitariness) {
    const auto wanted = describe(*spec.unitariness);
    const auto& found = record.facts["unitariness"];
    for (const auto& [name, value] : wanted.items()) {
      if (found.value(name, nlohmann::json()) != value) return false;
    }
  }
  return differences_that_matter(record.config, spec.config).empty();
}

const RunRecord* RunStore::find(const RunSpec& spec) const {
  const RunRecord* best = nullptr;
  const auto rank = [&](const RunRecord& record) {
    return (record.finished() ? 2 : 0) + (record.name == spec.name ? 1 : 0);
  };
  for (const auto& record : records_) {
    // Without a checkpoint there is nothing to go on from, and a copy's few lines are not ours to overwrite.
    // A kept run is never continued.
    const bool own = record.folder.filename() == spec.name;
    if (!record.finished() && !own && !record::Checkpoints(record.folder).any()) continue;
    if (matches(record, spec) && (!best || rank(record) > rank(*best))) best = &record;
  }
  return best;
}

}  // namespace stiefel::paper
