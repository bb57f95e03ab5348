#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <stiefel/device_kernels.h>
#include <torch/cuda.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bench/threads.h"
#include "bench/wait_policy.h"
#include "command.h"
#include "record/system.h"

namespace stiefel::app {

void add_info(CLI::App& app) {
  auto* command = app.add_subcommand(
      "info", "versions, devices, what takes mixed steps, BLAS, threads and how they wait");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "as one JSON object, for other programs");
  command->callback([json] {
    bench::set_threads(0);
    nlohmann::ordered_json facts = {{"commit", record::commit()}};
    facts.update(record::version_facts());
    facts.update(record::hardware_facts());
    facts["mixed_steps"] = kernels_on(torch::cuda::is_available() ? at::kCUDA : at::kCPU).reason;
    facts["threads"] = at::get_num_threads();
    facts["waiting"] = bench::wait_policy();
    if (*json) {
      fmt::print("{}\n", facts.dump(2));
      return;
    }
    if (facts["waiting"] == "") facts["waiting"] = "as the OpenMP library's default";
    for (const auto& [name, value] : facts.items()) {
      const auto text = value.is_string() ? value.get<std::string>() : value.dump();
      fmt::print("{:12} {}\n", name, text.empty() ? "none" : text);
    }
  });
}

}  // namespace stiefel::app
