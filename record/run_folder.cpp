#include "run_folder.h"

#include <algorithm>
#include <stdexcept>

#include "base/files.h"
#include "base/printable.h"
#include "run_facts.h"

namespace stiefel::record {

namespace fs = std::filesystem;

namespace {

void require_run_folder(const fs::path& folder) {
  const auto fail = [&](const std::string& what) {
    throw std::runtime_error(base::printable(folder) + ": " + what);
  };
  std::error_code ignored;
  const auto kind = fs::status(folder, ignored).type();
  if (kind == fs::file_type::not_found) fail("no such folder; name the folder that --out was given");
  if (kind != fs::file_type::directory) fail("not a folder; name the run's folder, not a file in it");
  if (!fs::exists(folder / "run.json", ignored)) {
    fail("not a run folder (it has no run.json); name a folder that `stiefel train --out` wrote");
  }
}

}  // namespace

RunFolder read_run(const fs::path& folder) {
  require_run_folder(folder);
  RunFolder run;
  run.folder = folder;
  // "runs/a/" ends in an empty name.
  const auto plain = fs::absolute(folder).lexically_normal();
  run.name = (plain.has_filename() ? plain : plain.parent_path()).filename().string();
  run.facts_file = folder / "run.json";
  run.config_file = folder / "config.toml";
  run.metrics_file = folder / "metrics.jsonl";
  run.facts = read_run_facts(folder);
  std::error_code ignored;
  if (fs::exists(run.config_file, ignored)) {
    run.settings = parse_config_entries(base::read_file(run.config_file)).entries;
  } else {
    run.warnings.emplace_back("The folder has no config.toml, so its settings are not shown.");
  }
  run.epochs = read_metrics(folder, run.warnings);
  return run;
}

bool is_unused(const fs::path& folder) {
  return std::all_of(fs::directory_iterator(folder), fs::directory_iterator(),
                     [](const auto& entry) { return base::is_temporary(entry.path(), "config.toml"); });
}

}  // namespace stiefel::record
