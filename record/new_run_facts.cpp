#include "new_run_facts.h"

#include <ATen/Parallel.h>

#include "system.h"

namespace stiefel::record {

nlohmann::json new_run_facts(const std::filesystem::path& folder, const std::vector<std::string>& command,
                             const std::string& started, const Config& config, const c10::Device& device) {
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

}  // namespace stiefel::record
