#include "run_facts.h"

#include <ATen/Parallel.h>

#include <utility>

#include "base/files.h"
#include "base/json.h"
#include "system.h"

namespace stiefel::train {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kFile = "run.json";

/// Null where there is no record that can be read.
json read_facts(const fs::path& folder) {
  if (!fs::exists(folder / kFile)) return {};
  try {
    auto facts = base::parse_json(base::read_file(folder / kFile));
    return facts.is_object() ? std::move(facts) : json();
  } catch (const base::JsonError&) {
    return {};
  }
}

}  // namespace

json run_facts(const fs::path& folder, const std::vector<std::string>& command, const std::string& started,
               const Config& config, const c10::Device& device) {
  const auto versions = version_facts();
  return {{"name", folder.filename().string()},
          {"command", command},
          {"commit", commit()},
          {"version", versions["stiefel"]},
          {"started", started},
          {"seed", config.seed},
          {"task", config.task},
          {"data", config.task_name()},
          {"model", config.model},
          {"optim", config.method_name()},
          {"device", device.str()},
          {"threads", at::get_num_threads()},
          {"hardware", hardware_facts()},
          {"versions", versions}};
}

void write_run_facts(const fs::path& folder, const json& facts) {
  // A command may hold bytes that are no UTF-8; they are replaced, for no name of a file is worth a run.
  base::write_file(folder / kFile, facts.dump(2, ' ', false, json::error_handler_t::replace) + "\n");
}

json parts_so_far(const fs::path& folder) {
  const auto facts = read_facts(folder);
  auto parts = json::array();
  if (!facts.is_object()) return parts;
  if (const auto found = facts.find("earlier"); found != facts.end() && found->is_array()) parts = *found;
  json last = json::object();
  for (const auto* name : {"command", "commit", "started", "device", "hardware", "versions"}) {
    if (const auto found = facts.find(name); found != facts.end()) last[name] = *found;
  }
  parts.push_back(last);
  return parts;
}

std::string status_of(const fs::path& folder) {
  const auto facts = read_facts(folder);
  const auto status = facts.is_object() ? facts.value("status", json()) : json();
  return status.is_string() ? status.get<std::string>() : "";
}

}  // namespace stiefel::train
