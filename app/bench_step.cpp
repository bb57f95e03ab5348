#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>

#include "base/progress_line.h"
#include "base/standard_streams.h"
#include "base/table.h"
#include "bench/dense_speedup.h"
#include "bench/formats.h"
#include "bench/gemm.h"
#include "bench/step_comparison.h"
#include "bench/threads.h"
#include "bench_parts.h"
#include "number_options.h"
#include "train/device.h"
#include "train/message.h"

namespace stiefel::app {

namespace {

struct StepOptions {
  ComparisonOptions common;
  std::vector<std::string> models;
  std::vector<std::string> shapes;
  std::string suite;
  bool quick = false;
  bool list = false;
  bool rates = false;
  bool sample_slow = false;
  int64_t rounds = 0;
  double min_time = bench::StepPlan().min_seconds;
  std::string order = "interleaved";

  bool has_suite() const { return !suite.empty() || quick; }
  bool is_quick() const { return quick || suite == "quick"; }
};

/// A flag of the benchmark that `./dev bench` ran before, and what does the same now.
struct FormerFlag {
  const char* name;
  const char* remedy;
  std::string value;
  CLI::Option* option = nullptr;
};

std::vector<FormerFlag> former_flags() {
  return {
      {"--benchmark_filter", "use --model or --shape, and --methods", "", nullptr},
      {"--benchmark_list_tests", "use --list", "", nullptr},
      {"--benchmark_out", "use --format json and redirect the output", "", nullptr},
      {"--benchmark_out_format", "use --format and redirect the output", "", nullptr},
      {"--benchmark_format", "use --format", "", nullptr},
      {"--benchmark_repetitions", "use --rounds", "", nullptr},
      {"--benchmark_min_time", "use --min-time", "", nullptr},
      {"--benchmark_enable_random_interleaving", "use --order", "", nullptr},
  };
}

void refuse_former_flags(const std::vector<FormerFlag>& flags) {
  for (const auto& flag : flags) {
    if (flag.option->count() > 0) {
      throw std::invalid_argument(fmt::format("{} is no option any more; {}", flag.name, flag.remedy));
    }
  }
}

std::vector<bench::Subject> chosen_subjects(const StepOptions& options) {
  std::vector<bench::Subject> subjects;
  if (options.has_suite()) return bench::standard_subjects(options.is_quick());
  for (const auto& model : options.models) subjects.push_back(bench::network_subject(model));
  for (const auto& shape : options.shapes) subjects.push_back(bench::shape_subject(shape));
  if (subjects.empty()) subjects.push_back(bench::shape_subject("256x2304"));
  return subjects;
}

std::vector<bench::Contender> chosen_contenders(const StepOptions& options,
                                                const std::vector<bench::Subject>& subjects) {
  const auto& names = options.common.methods;
  auto chosen = names.empty() && options.has_suite() ? bench::standard_contenders(options.is_quick())
                                                     : bench::step_contenders(names);
  const bool network = std::any_of(subjects.begin(), subjects.end(),
                                   [](const bench::Subject& subject) { return subject.network.has_value(); });
  for (const auto& contender : chosen) {
    if (contender.needs_network && !network && !names.empty()) {
      throw std::invalid_argument(fmt::format(
          "{} works on a network's activations; give --model instead of --shape", contender.name));
    }
  }
  return chosen;
}

bench::StepPlan plan_for(const StepOptions& options, const bench::Subject& subject,
                         const at::Device& device) {
  bench::StepPlan plan;
  if (options.has_suite() && subject.network) plan.rounds = 3;  // they take seconds per step
  if (options.rounds > 0) plan.rounds = options.rounds;
  plan.min_seconds = options.min_time;
  plan.interleaved = options.order == "interleaved";
  plan.rates = options.rates || (options.has_suite() && device.is_cpu());
  plan.sample_slow = options.sample_slow || options.has_suite();
  return plan;
}

void print_aligned(const base::Table& table) {
  std::ostringstream text;
  table.print(text);
  fmt::print("{}", text.str());
}

void list_cases() {
  base::Table subjects({"of --suite full", "weights", ""});
  for (const auto& subject : bench::standard_subjects(false)) {
    subjects.add({subject.weights.name, fmt::format("{}", subject.weights.weights()), subject.weights.title});
  }
  print_aligned(subjects);
  fmt::print("\n");
  base::Table methods({"method", "flop", ""});
  for (const auto& contender : bench::contenders()) {
    if (contender.begin) methods.add({contender.name, contender.operations, contender.title});
  }
  print_aligned(methods);
}

void print_products() {
  base::Table table({"product", "GFLOP/s"});
  for (const auto& [gemm, rate] : bench::gemm_rates(7)) table.add({gemm.title, fmt::format("{:.0f}", rate)});
  fmt::print("The machine's matrix product (at::mm, float)\n");
  print_aligned(table);
}

void print_heading(const bench::Subject& subject, const at::Device& device, const bench::StepPlan& plan) {
  const auto how = device.is_cuda()
                       ? fmt::format("CUDA graphs of {} steps, and each step launched alone (eager)",
                                     bench::kStepsPerGraph)
                       : thread_count_text();
  const auto matrices = subject.weights.matrices();
  fmt::print("one step on {} ({} {}, {} weights), {}, {}, medians of {} {}rounds\n\n", subject.weights.title,
             matrices, matrices == 1 ? "matrix" : "matrices", subject.weights.weights(), device.str(), how,
             plan.rounds, plan.interleaved ? "interleaved " : "");
}

const char* const kNotes =
    "ms: the median over rounds for all matrices of the workload, their interquartile range, and the least. "
    "A\n"
    "ratio is the median over rounds of the ratio within a round.\n"
    "GFLOP/s: the products and solves that a step asks LibTorch for; a Gram matrix counts as a whole "
    "product, a\n"
    "solve with q right sides as ⅔p³ + 2qp². 'of GEMM' is that rate over the square product's in the same "
    "round;\n"
    "'run' counts of a Gram matrix only what was computed.\n"
    "‖XᵀX−I‖: the largest Frobenius norm after the timed steps.\n";

/// One workload after the other.
class StepBenchmark {
 public:
  explicit StepBenchmark(const StepOptions& options)
      : options_(options),
        subjects_(chosen_subjects(options)),
        contenders_(chosen_contenders(options, subjects_)) {}

  void run() {
    bench::set_threads(options_.common.threads);
    const auto device = train::choose_device(options_.common.device);
    if (options_.rates && !device.is_cpu()) {
      throw std::invalid_argument(
          "--rates counts LibTorch's products, which our kernels on a GPU are not; add --device cpu");
    }
    const bool for_people = options_.common.for_people();
    const bool rates = plan_for(options_, subjects_.front(), device).rates;
    if (for_people && rates) {
      print_products();
      fmt::print("\n");
    }
    for (auto& subject : subjects_) {
      if (options_.common.step_precision == "full") subject.precision = Precision::kFull;
      measure(subject, device);
    }
    if (!for_people) fmt::print("{}", bench::format_rows(shown_, options_.common.format));
    const auto speedup = for_people && results_.size() > 1 ? bench::format_dense_speedup(results_) : "";
    if (!speedup.empty()) fmt::print("\n{}", speedup);
    if (for_people && rates) fmt::print("\n{}", kNotes);
    std::fflush(stdout);
    if (!measured_) throw Exit{1};
  }

 private:
  void measure(const bench::Subject& subject, const at::Device& device) {
    auto contenders = contenders_;
    if (!subject.network) {
      contenders.erase(std::remove_if(contenders.begin(), contenders.end(),
                                      [](const bench::Contender& one) { return one.needs_network; }),
                       contenders.end());
    }
    const auto plan = plan_for(options_, subject, device);
    base::ProgressLine progress;
    std::vector<bench::Row> rows;
    try {
      rows = bench::compare_steps(bench::with_baselines(contenders), subject, device, plan,
                                  [&](const std::string& what) { progress.now(what); });
    } catch (const std::exception& error) {
      if (subjects_.size() == 1) throw;
      base::say(fmt::format("{} could not be measured: {}", subject.weights.name, train::message_of(error)));
      return;
    }
    progress.done();
    std::vector<std::string> names;
    for (const auto& contender : contenders) names.push_back(contender.name);
    const auto shown = bench::only(rows, names);
    if (options_.common.for_people()) {
      if (!results_.empty()) fmt::print("\n");
      print_heading(subject, device, plan);
      fmt::print("{}", bench::format_rows(shown, options_.common.format));
      std::fflush(stdout);
    }
    measured_ = say_failures(rows, shown) || measured_;
    shown_.insert(shown_.end(), shown.begin(), shown.end());
    results_.emplace_back(subject.weights, rows);
  }

  const StepOptions& options_;
  std::vector<bench::Subject> subjects_;
  std::vector<bench::Contender> contenders_;
  std::vector<bench::Row> shown_;
  std::vector<std::pair<bench::Workload, std::vector<bench::Row>>> results_;
  bool measured_ = false;
};

}  // namespace

void add_bench_step(CLI::App& group) {
  auto* command = group.add_subcommand(
      "step",
      "one optimiser step of every method: the penalty's gradient or the parametrisation's passes, and "
      "the update, without the network");
  const auto options = std::make_shared<StepOptions>();
  auto* model = command
                    ->add_option("--model", options->models,
                                 "the weights of networks: small, vgg-16, wrn-28-10 …; several with commas "
                                 "between")
                    ->delimiter(',');
  auto* shape = command
                    ->add_option("--shape", options->shapes,
                                 "weights: one matrix PxN, a stack PxNxB, or C of them PxN*C; several with "
                                 "commas between (default: 256x2304)")
                    ->delimiter(',')
                    ->excludes(model);
  auto* suite =
      command
          ->add_option("--suite", options->suite,
                       "the standard set of networks and shapes with our step, its variants and its "
                       "peers, --rates and --sample-slow: full, or quick (no networks, no large squares, no "
                       "slow methods)")
          ->check(CLI::IsMember({"full", "quick"}))
          ->excludes(model)
          ->excludes(shape);
  command->add_flag("--quick", options->quick, "--suite quick")
      ->excludes(model)
      ->excludes(shape)
      ->excludes(suite);
  command->add_flag("--list", options->list, "print the standard set and the methods, and measure nothing");
  command
      ->add_option("--rounds", options->rounds,
                   "timed rounds of every method (default: 7; 3 for the networks of a suite)")
      ->transform(whole_number(1, 100000));
  command->add_option("--repetitions", options->rounds, "the former name of --rounds")
      ->transform(whole_number(1, 100000))
      ->group("");
  command
      ->add_option("--min-time", options->min_time,
                   "seconds of a method in a round, at least: short steps are averaged")
      ->capture_default_str()
      ->check(number({0, 3600}));
  command
      ->add_option(
          "--order", options->order,
          "interleaved: every round takes every method, in random order; sequential: one method after "
          "the other, which needs the memory of one")
      ->capture_default_str()
      ->check(CLI::IsMember({"interleaved", "sequential"}));
  command->add_flag(
      "--rates", options->rates,
      "count each step's products, and show rates beside the machine's own matrix product (CPU)");
  command->add_flag("--sample-slow", options->sample_slow,
                    "polar and cayley-closed on one matrix per shape of a network, times their number");
  options->common.add(*command, bench::step_contenders);
  const auto former = std::make_shared<std::vector<FormerFlag>>(former_flags());
  for (auto& flag : *former) {
    flag.option = command->add_option(flag.name, flag.value, flag.remedy)->expected(0, 1)->group("");
  }
  command->callback([options, former] {
    refuse_former_flags(*former);
    if (options->list) return list_cases();
    StepBenchmark(*options).run();
  });
}

}  // namespace stiefel::app
