#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "bench/threads.h"
#include "bench/wait_policy.h"
#include "command.h"
#include "record/system.h"

namespace stiefel::app {

void add_info(CLI::App& app) {
  auto* command = app.add_subcommand("info", "versions, devices, BLAS, threads and how they wait");
  command->callback([] {
    bench::set_threads(0);
    const auto line = [](const std::string& name, const nlohmann::json& value) {
      const auto text = value.is_string() ? value.get<std::string>() : value.dump();
      fmt::print("{:12} {}\n", name, text.empty() ? "none" : text);
    };
    line("commit", record::commit());
    const auto versions = record::version_facts();
    const auto hardware = record::hardware_facts();
    for (const auto& [name, value] : versions.items()) line(name, value);
    for (const auto& [name, value] : hardware.items()) line(name, value);
    line("threads", at::get_num_threads());
    const auto policy = bench::wait_policy();
    line("waiting", policy.empty() ? "as the OpenMP library's default" : policy);
  });
}

}  // namespace stiefel::app
