#include <fmt/format.h>
#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/csv.h"
#include "base/markdown.h"
#include "base/output_format.h"
#include "base/progress_line.h"
#include "base/standard_streams.h"
#include "base/table.h"
#include "bench/ranks_comparison.h"
#include "bench/ranks_model.h"
#include "bench/subject.h"
#include "bench/threads.h"
#include "bench_parts.h"
#include "distributed/join.h"
#include "distributed/local_ranks.h"
#include "number_options.h"
#include "ranks.h"
#include "train/device.h"

namespace stiefel::app {

namespace {

struct BenchRanksOptions {
  std::vector<std::string> models;
  std::vector<std::string> shapes;
  bench::RanksPlan plan;
  RankOptions ranks;
  std::string device = "auto";
  std::string format = "table";
  int64_t threads = 0;
  std::vector<int64_t> predict;  ///< numbers of ranks; none: measure
  double step_ms = 0;
  double divided_step_ms = 0;  ///< 0: step_ms
  double rate = 50;            ///< GB/s
  double latency = 5;          ///< µs

  bool for_people() const { return format == "table" || format == "md"; }
};

std::string megabytes(int64_t bytes) { return fmt::format("{:.3g}", static_cast<double>(bytes) / 1e6); }

base::Table table_of(const std::vector<bench::RanksRow>& rows) {
  base::Table table({"method", "the step is", "ms", "× repeated", "MB sent", "by formula"}, "llr");
  for (const auto& row : rows) {
    table.add({row.method, to_string(row.way), fmt::format("{:.3g}", row.median_ms),
               fmt::format("{:.2f}", row.of_repeated), megabytes(row.sent.bytes),
               megabytes(row.predicted.bytes)});
  }
  return table;
}

/// Full numbers, for programs.
void print_all(const std::vector<bench::RanksRow>& rows, const std::string& format, int64_t processes) {
  const char* const names[] = {"workload",  "method",      "way",        "processes",
                               "median_ms", "of_repeated", "bytes_sent", "bytes_predicted"};
  if (format == "json") {
    auto all = nlohmann::ordered_json::array();
    for (const auto& row : rows) {
      all.push_back({{names[0], row.workload},
                     {names[1], row.method},
                     {names[2], to_string(row.way)},
                     {names[3], processes},
                     {names[4], row.median_ms},
                     {names[5], row.of_repeated},
                     {names[6], row.sent.bytes},
                     {names[7], row.predicted.bytes}});
    }
    fmt::print("{}\n", all.dump(2));
    return;
  }
  base::Table table({std::begin(names), std::end(names)});
  for (const auto& row : rows) {
    table.add({row.workload, row.method, to_string(row.way), fmt::format("{}", processes),
               fmt::format("{}", row.median_ms), fmt::format("{}", row.of_repeated),
               fmt::format("{}", row.sent.bytes), fmt::format("{}", row.predicted.bytes)});
  }
  fmt::print("{}", base::to_csv(table));
}

std::vector<bench::Workload> workloads_of(const BenchRanksOptions& options) {
  std::vector<bench::Workload> workloads;
  for (const auto& model : options.models) workloads.push_back(bench::network_subject(model).weights);
  for (const auto& shape : options.shapes) workloads.push_back(bench::shape_subject(shape).weights);
  if (workloads.empty()) workloads.push_back(bench::network_subject("wrn-16-4").weights);
  return workloads;
}

/// The model's table, without any processes.
void print_predictions(const BenchRanksOptions& options) {
  if (options.step_ms == 0) {
    throw std::invalid_argument(
        "--predict needs --step-ms, what one process takes for the step: measure it with stiefel bench step");
  }
  const auto divided_ms = options.divided_step_ms != 0 ? options.divided_step_ms : options.step_ms;
  for (const auto& workload : workloads_of(options)) {
    for (const auto& method : options.plan.methods) {
      base::Table table({"processes", "the step is", "ms", "× repeated", "of the work", "MB sent"}, "rlr");
      for (const auto& row :
           bench::predict_steps(workload, method, {options.step_ms / 1e3, divided_ms / 1e3},
                                {options.rate * 1e9, options.latency / 1e6}, options.predict)) {
        table.add({fmt::format("{}", row.ranks), to_string(row.way), fmt::format("{:.3g}", 1e3 * row.seconds),
                   fmt::format("{:.2f}", 1e3 * row.seconds / options.step_ms),
                   fmt::format("{:.1f} %", 100 * row.work), megabytes(row.sent)});
      }
      fmt::print(
          "predicted, not measured: {}, {}, {:g} ms by one process{}, {:g} GB/s, {:g} µs per hop\n\n{}\n",
          method, workload.title, options.step_ms,
          divided_ms == options.step_ms ? "" : fmt::format(" ({:g} ms where divided)", divided_ms),
          options.rate, options.latency, options.format == "md" ? base::to_markdown(table) : table.text());
    }
  }
}

/// What one of the ranks does.
void measure(const BenchRanksOptions& options, const distributed::Launch& launch) {
  bench::set_threads(options.threads);
  const auto device = train::choose_device(options.device);
  const auto world =
      distributed::join(launch, join_options(launch, options.ranks, "bench ranks", device.is_cuda()));
  const bool first = is_first(world);
  std::vector<bench::RanksRow> all;
  base::ProgressLine progress;
  for (const auto& workload : workloads_of(options)) {
    torch::manual_seed(1);  // the same weights on every rank
    const auto rows =
        bench::compare_ranks(workload, world->ranks(), device, options.plan, [&](const std::string& what) {
          if (first) progress.now(workload.name + ", " + what);
        });
    all.insert(all.end(), rows.begin(), rows.end());
    if (!first || !options.for_people()) continue;
    progress.done();
    fmt::print("one step of {} by {} over {}, {} each, {}, medians of {} interleaved rounds\n\n{}\n",
               workload.title,
               world->size() == 1 ? "one process" : fmt::format("{} processes", world->size()),
               world->backend(), thread_count_text(), device.str(), options.plan.rounds,
               options.format == "md" ? base::to_markdown(table_of(rows)) : table_of(rows).text());
    std::fflush(stdout);
  }
  if (!first) return;
  if (!options.for_people()) return print_all(all, options.format, world->size());
  fmt::print(
      "ms: of the slowest process. MB sent: by one process and step, counted, if sums and gatherings go in\n"
      "rings; by formula: from the shapes. repeated: every process steps all; shared: each weight has an "
      "owner;\n"
      "divided: by parts of long sides; gathered: the same parts, brought together for whole steps.\n");
}

}  // namespace

void add_bench_ranks(CLI::App& group, const Context& context) {
  auto* command = group.add_subcommand(
      "ranks",
      "one step by several processes that share it, by owners or by parts, beside processes that repeat it");
  const auto options = std::make_shared<BenchRanksOptions>();
  auto* model =
      command
          ->add_option("--model", options->models,
                       "the weights of networks: small, vgg-16, wrn-28-10 …; several with commas between "
                       "(default: wrn-16-4)")
          ->delimiter(',');
  command
      ->add_option("--shape", options->shapes,
                   "weights: one matrix PxN, a stack PxNxB, or C of them PxN*C; several with commas between")
      ->delimiter(',')
      ->excludes(model);
  command->add_option("--methods", options->plan.methods, "which of cayley-sgd, cayley-adam and cayley-muon")
      ->delimiter(',')
      ->capture_default_str()
      ->check(CLI::IsMember({"cayley-sgd", "cayley-adam", "cayley-muon"}));
  options->ranks.add(*command);
  command->add_option("--rounds", options->plan.rounds, "timed rounds of every row")
      ->capture_default_str()
      ->transform(whole_number(1, 100000));
  command->add_option("--device", options->device, "auto, cpu or cuda")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}));
  command->add_option("--format", options->format, "table, csv, json or md")
      ->capture_default_str()
      ->check(CLI::IsMember(base::output_formats()));
  command
      ->add_option("--threads", options->threads,
                   "of the CPU, per process (default: all cores over the processes)")
      ->transform(whole_number());
  command
      ->add_option(
          "--predict", options->predict,
          "measure nothing, and predict the step by these numbers of processes from --step-ms, --rate and "
          "--latency: 8,64,1024")
      ->delimiter(',')
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--step-ms", options->step_ms, "for --predict: milliseconds of the step by one process")
      ->check(number({0, 1e9}));
  command
      ->add_option("--divided-step-ms", options->divided_step_ms,
                   "for --predict: the same for divided weights, whose steps are full in precision (default: "
                   "--step-ms)")
      ->check(number({0, 1e9}));
  command
      ->add_option("--rate", options->rate,
                   "for --predict: GB/s that a process sends while it receives as much")
      ->capture_default_str()
      ->check(number({1e-6, 1e6}));
  command->add_option("--latency", options->latency, "for --predict: microseconds of a hop")
      ->capture_default_str()
      ->check(number({0, 1e9}));
  command->callback([=, &context] {
    if (!options->predict.empty()) return print_predictions(*options);
    if (const auto launch = options->ranks.find_launch()) return measure(*options, *launch);
    if (options->ranks.processes == 0) options->ranks.processes = 2;
    workloads_of(*options);  // a bad name fails before any work
    const auto outcome = start_processes(options->ranks, context, options->threads);
    if (!outcome.what.empty()) base::say(fmt::format("stiefel: {}; nothing was measured", outcome.what));
    if (outcome.status != 0) throw Exit{outcome.status};
  });
}

}  // namespace stiefel::app
