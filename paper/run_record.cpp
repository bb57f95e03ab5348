#include "run_record.h"

#include <fmt/format.h>

#include <sstream>
#include <stdexcept>

#include "files/files.h"

namespace stiefel::paper {

namespace fs = std::filesystem;
using nlohmann::json;

bool RunRecord::finished() const {
  return facts.value("status", std::string()) == "finished" &&
         (!epochs.empty() || facts.contains("unitariness"));
}

std::optional<RunRecord> read_run(const fs::path& folder) {
  const auto config = folder / "config.toml";
  const auto facts = folder / "run.json";
  if (!fs::exists(config) || !fs::exists(facts)) return std::nullopt;
  RunRecord record;
  record.folder = folder;
  record.config = train::config_from_toml(files::read(config), config.string());
  record.config.resolve();
  const auto parse = [](const std::string& text, const fs::path& file) {
    auto parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_object()) {
      throw std::runtime_error(
          fmt::format("{}: broken JSON; restore it from a copy or move the run away", file.string()));
    }
    return parsed;
  };
  record.facts = parse(files::read(facts), facts);
  const auto metrics = folder / "metrics.jsonl";
  if (fs::exists(metrics)) {
    std::istringstream lines(files::read(metrics));
    for (std::string line; std::getline(lines, line);) {
      if (!line.empty()) record.epochs.push_back(parse(line, metrics).get<train::EpochMetrics>());
    }
  }
  return record;
}

json provenance(const RunRecord& record) {
  const auto take = [&](const char* name) { return record.facts.value(name, json()); };
  const auto versions = record.facts.value("versions", json::object());
  return {{"folder", record.folder.string()},
          {"command", take("command")},
          {"commit", take("commit")},
          {"hardware", take("hardware")},
          {"device", take("device")},
          {"precision", take("precision")},
          {"libtorch", versions.value("libtorch", json())},
          {"seed", take("seed")},
          {"seconds", take("seconds")},
          {"date", take("started")}};
}

}  // namespace stiefel::paper
