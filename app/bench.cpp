#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/output_format.h"
#include "base/standard_streams.h"
#include "bench/formats.h"
#include "bench_parts.h"
#include "number_options.h"

namespace stiefel::app {

void ComparisonOptions::add(CLI::App& command,
                            std::vector<bench::Contender> (*choose)(const std::vector<std::string>&)) {
  std::vector<std::string> usual;
  for (const auto& contender : choose({})) usual.push_back(contender.name);
  std::vector<std::string> others;
  for (const auto& contender : bench::contenders()) {
    if (contender.by_default) continue;
    try {
      choose({contender.name});
      others.push_back(contender.name);
    } catch (const std::invalid_argument&) {
      // not in this comparison
    }
  }
  command
      .add_option("--methods", methods,
                  fmt::format("which (default: {}; also: {})", fmt::join(usual, ","), fmt::join(others, ",")))
      ->delimiter(',');
  command.add_option("--device", device, "auto, cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  command
      .add_option("--step-precision", step_precision,
                  "of cayley-sgd, cayley-adam and cayley-muon on a GPU: full or mixed; auto: mixed")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "full", "mixed"}));
  command.add_option("--format", format, "table, csv, json or md")
      ->capture_default_str()
      ->check(CLI::IsMember(base::output_formats()));
  command.add_option("--threads", threads, "of the CPU (default: $OMP_NUM_THREADS, else all cores)")
      ->transform(whole_number());
}

std::string thread_count_text() {
  const int count = at::get_num_threads();
  return fmt::format("{} thread{}", count, count == 1 ? "" : "s");
}

bool say_failures(const std::vector<bench::Row>& rows, const std::vector<bench::Row>& shown) {
  for (const auto& row : rows) {
    if (!row.failure.empty()) {
      base::say(fmt::format("{} could not be measured: {}", row.method, row.failure));
    }
  }
  return std::any_of(shown.begin(), shown.end(), [](const bench::Row& row) { return row.failure.empty(); });
}

void add_bench(CLI::App& app, const Context& context) {
  auto* group = app.add_subcommand("bench", "time every method of the paper's comparison side by side");
  group->require_subcommand(1);
  add_bench_step(*group);
  add_bench_training(*group);
  add_bench_recurrence(*group);
  add_bench_ranks(*group, context);
}

}  // namespace stiefel::app
