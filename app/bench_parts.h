#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/contenders.h"
#include "bench/row.h"
#include "command.h"

/// The parts of `stiefel bench`.
namespace stiefel::app {

void add_bench_step(CLI::App& group);
void add_bench_training(CLI::App& group);
void add_bench_recurrence(CLI::App& group);
void add_bench_ranks(CLI::App& group, const Context& context);

/// The options of both comparisons of methods.
struct ComparisonOptions {
  std::vector<std::string> methods;
  std::string device = "auto";
  std::string format = "table";
  std::string step_precision = "auto";
  int64_t threads = 0;

  /// `choose` returns the contenders of some names, or the usual ones.
  void add(CLI::App& command, std::vector<bench::Contender> (*choose)(const std::vector<std::string>& names));

  bool for_people() const { return format == "table" || format == "md"; }
};

/// Where the numbers come from: "2 threads" on a CPU.
std::string thread_count_text();

/// Says which methods could not be measured; returns whether any of those shown could.
bool say_failures(const std::vector<bench::Row>& rows, const std::vector<bench::Row>& shown);

}  // namespace stiefel::app
