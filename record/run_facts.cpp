#include "run_facts.h"

#include <fmt/format.h>

#include "base/files.h"
#include "base/json.h"
#include "damaged_run.h"

namespace stiefel::record {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kFactsFile = "run.json";

/// An empty object where there is no record that can be read.
json facts_or_empty(const fs::path& folder) {
  if (!fs::exists(folder / kFactsFile)) return json::object();
  try {
    return read_run_facts(folder);
  } catch (const DamagedRun&) {
    return json::object();
  }
}

}  // namespace

json read_run_facts(const fs::path& folder) {
  const auto file = folder / kFactsFile;
  return parse_run_facts(file, base::read_file(file));
}

json parse_run_facts(const fs::path& file, const std::string& text) {
  try {
    auto facts = base::parse_json(text);
    if (facts.is_object()) return facts;
  } catch (const base::JsonError& error) {
    throw DamagedRun(file, fmt::format("line {}: {}", error.line, error.reason));
  }
  throw DamagedRun(file, "line 1: expected a JSON object");
}

void write_run_facts(const fs::path& folder, const json& facts) {
  base::write_file(folder / kFactsFile, base::dump_json(facts));
}

json parts_so_far(const fs::path& folder) {
  const auto facts = facts_or_empty(folder);
  auto parts = json::array();
  if (facts.empty()) return parts;
  if (const auto found = facts.find("earlier"); found != facts.end() && found->is_array()) parts = *found;
  json last = json::object();
  for (const auto* name :
       {"command", "commit", "started", "device", "processes", "backend", "hardware", "versions"}) {
    if (const auto found = facts.find(name); found != facts.end()) last[name] = *found;
  }
  parts.push_back(last);
  return parts;
}

std::string status_of(const fs::path& folder) {
  const auto status = facts_or_empty(folder).value("status", json());
  return status.is_string() ? status.get<std::string>() : "";
}

std::vector<std::string> commits_of(const json& facts) {
  std::vector<std::string> all;
  const auto add = [&](const json& part) {
    const auto found = part.is_object() ? part.find("commit") : part.end();
    if (found == part.end() || !found->is_string()) return;
    const auto commit = found->get<std::string>();
    if (!commit.empty() && (all.empty() || all.back() != commit)) all.push_back(commit);
  };
  if (const auto earlier = facts.find("earlier"); earlier != facts.end() && earlier->is_array()) {
    for (const auto& part : *earlier) add(part);
  }
  add(facts);
  return all;
}

}  // namespace stiefel::record
