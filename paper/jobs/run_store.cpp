#include "run_store.h"

#include <algorithm>
#include <stdexcept>

#include "base/printable.h"
#include "record/checkpoint.h"

namespace stiefel::paper {

namespace fs = std::filesystem;

RunStore::RunStore(const fs::path& out, Scale scale) : folder_(out / to_string(scale)) {
  if (!fs::is_directory(folder_)) return;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end());  // the same choice every time
  for (const auto& folder : folders) {
    try {
      if (auto record = read_run_record(folder)) records_.push_back(std::move(*record));
    } catch (const std::exception& error) {
      complaints_.push_back("left out " + base::printable(folder) + ": " + error.what());
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
    return (record.finished() ? 2 : 0) + (record.folder.filename() == spec.name ? 1 : 0);
  };
  for (const auto& record : records_) {
    // Without a checkpoint there is nothing to go on from, and a copy's few lines are not ours to overwrite.
    const bool own = record.folder.filename() == spec.name;
    if (!record.finished() && !own && !record::Checkpoints(record.folder).any()) continue;
    if (matches(record, spec) && (!best || rank(record) > rank(*best))) best = &record;
  }
  return best;
}

}  // namespace stiefel::paper
