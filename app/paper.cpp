#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

#include "bench/progress.h"
#include "command.h"
#include "files/files.h"
#include "paper/document.h"
#include "paper/figure_svg.h"
#include "paper/formats.h"
#include "paper/kept.h"
#include "paper/pace.h"
#include "paper/page.h"
#include "paper/registry.h"
#include "paper/results.h"
#include "paper/runner.h"
#include "paper/workers.h"
#include "threads.h"
#include "train/display.h"
#include "train/interrupt.h"

namespace stiefel::app {

namespace fs = std::filesystem;

namespace {

struct Options {
  std::string name;
  std::string only;
  std::string scale = "full";
  std::string out = "runs/paper";
  std::string format = "table";
  std::string html;
  int64_t seeds = 0;
  int64_t jobs = 1;
  bool dry_run = false;
  bool worker = false;
  bool show = false;
  paper::Circumstances circumstances;
};

/// While it lives, what is printed goes to the error stream, so that a run's lines do not mix with results.
class PrintsAside {
 public:
  PrintsAside() : kept_(dup(STDOUT_FILENO)) { turn(STDERR_FILENO); }
  ~PrintsAside() {
    turn(kept_);
    close(kept_);
  }
  PrintsAside(const PrintsAside&) = delete;
  PrintsAside& operator=(const PrintsAside&) = delete;

 private:
  static void turn(int to) {
    std::fflush(stdout);
    dup2(to, STDOUT_FILENO);
  }
  int kept_;
};

void say(const std::string& line) {
  fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
}

std::string kept_or_not(const paper::Experiment& experiment, paper::Scale scale, const Options& options) {
  try {
    return paper::read_kept(experiment, scale, options.out) ? "kept" : "–";
  } catch (const std::exception&) {
    return "damaged";  // the command that shows it says how
  }
}

std::string runs_done(const paper::Experiment& experiment, paper::Scale scale, const Options& options) {
  if (experiment.compute) return kept_or_not(experiment, scale, options);
  const auto jobs = paper::make_plan(experiment.cells, 1, scale, options.circumstances, options.out);
  int64_t done = 0;
  for (const auto& job : jobs) done += job.state == paper::Job::State::kDone ? 1 : 0;
  return fmt::format("{} of {}", done, jobs.size());
}

void list(const Options& options) {
  fmt::print("{:10}{:>12}{:>12}{:>12}  {}\n", "", "smoke", "short", "full", "runs done in " + options.out);
  for (const auto& experiment : paper::experiments()) {
    fmt::print("{:10}", experiment.name);
    for (const auto scale : paper::scales()) fmt::print("{:>12}", runs_done(experiment, scale, options));
    fmt::print("  {}\n", experiment.title);
    fmt::print("{:48}rows: {}\n{:48}columns: {}\n", "", fmt::format("{}", fmt::join(experiment.rows(), ", ")),
               "", fmt::format("{}", fmt::join(experiment.columns(), ", ")));
  }
  fmt::print(
      "\nTheorems are computed without runs: kept is computed and kept, – is not.\n"
      "smoke: stand-in networks, which cells share.\n");
}

/// The document on the standard output, its drawings beside the runs.
void write_document(const Options& options) {
  const auto document = paper::make_document(options.out);
  for (const auto& complaint : document.complaints) say(complaint);
  for (const auto& [file, svg] : document.drawings) {
    files::write(file, svg);
    say("wrote " + file.string());
  }
  fmt::print("{}", document.markdown);
}

void show_plan(const std::vector<paper::Job>& jobs, paper::Scale scale) {
  if (scale != paper::Scale::kFull) fmt::print("{}\n", paper::mark(scale));
  for (const auto& job : jobs) {
    const char* state = job.state == paper::Job::State::kDone          ? "done"
                        : job.state == paper::Job::State::kInterrupted ? "goes on"
                                                                       : "runs";
    std::string time;
    if (job.state != paper::Job::State::kDone) {
      time = job.seconds ? fmt::format("about {}, by {}", train::duration(*job.seconds), job.basis)
                         : std::string("time unknown");
    }
    const auto amount = job.spec.unitariness ? fmt::format("{} iterations", job.spec.unitariness->iterations)
                                             : fmt::format("{} epochs", job.spec.config.epochs);
    fmt::print("{:8}  {:48}  {:>14}  {}\n", state, job.spec.name, amount, time);
  }
  fmt::print("{}\n", to_string(paper::time_left(jobs)));
}

/// The command that a worker runs: this one, alone.
std::vector<std::string> worker_arguments(const Options& options) {
  const auto& circumstances = options.circumstances;
  std::vector<std::string> words{"paper", options.name, "--scale", options.scale,
                                 "--out", options.out,  "--worker"};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  add("--only", options.only);
  add("--seeds", options.seeds > 0 ? std::to_string(options.seeds) : "");
  add("--device", circumstances.device);
  add("--precision", circumstances.precision);
  add("--threads", circumstances.threads > 0 ? std::to_string(circumstances.threads) : "");
  add("--data-dir", circumstances.data_dir);
  return words;
}

/// Runs what is missing; throws Exit where a signal came.
void run_missing(const std::vector<paper::Cell>& cells, int64_t seeds, paper::Scale scale,
                 const Options& options, const Context& context) {
  auto jobs = paper::make_plan(cells, seeds, scale, options.circumstances, options.out);
  paper::check_data(jobs);
  const PrintsAside aside;
  const train::InterruptGuard interrupts;  // no signal comes between us and the workers
  if (!options.worker) paper::time_networks(jobs, scale, say);
  const auto missing = std::count_if(jobs.begin(), jobs.end(),
                                     [](const auto& job) { return job.state != paper::Job::State::kDone; });
  std::optional<paper::Workers> workers;
  if (const auto others = std::min<int64_t>(options.jobs, missing) - 1; others > 0) {
    workers.emplace(others, worker_arguments(options), fs::path(options.out) / to_string(scale));
  }
  int signal = paper::run_jobs(jobs, options.out, scale, context.command, say);
  if (workers) signal = workers->finish(signal, say);
  if (signal == 0) return;
  say(fmt::format("stopped by {}; the same command goes on from there",
                  signal == SIGINT ? "Ctrl-C" : "SIGTERM"));
  throw Exit{128 + signal};
}

void write_figures(const paper::Results& results, const paper::Verdict& verdict, const Options& options) {
  const auto folder = fs::path(options.out) / to_string(results.scale);
  for (const auto& panel : results.experiment->columns()) {
    const auto svg = paper::draw_panel(results, verdict, panel);
    if (svg.empty()) continue;
    const auto file = folder / fmt::format("{}-{}.svg", results.experiment->name, panel);
    files::write(file, svg);
    say("wrote " + file.string());
  }
}

/// What a computation finds, fresh.
paper::Results compute(const paper::Experiment& experiment, const std::vector<paper::Cell>& cells,
                       int64_t seeds, paper::Scale scale, const Context& context) {
  paper::Results results{&experiment, scale, {}};
  for (const auto& cell : cells) results.cells.push_back({cell, seeds, {}, {}, {}});
  bench::Progress progress;
  experiment.compute(results, seeds, [&](const std::string& what) { progress.now(what); });
  progress.done();
  for (auto& result : results.cells) {
    for (auto& one : result.measured) one.origin["command"] = context.command;
  }
  return results;
}

/// What a computation found earlier, in the cells that were chosen.
paper::Results show_kept(const paper::Experiment& experiment, const std::vector<paper::Cell>& cells,
                         paper::Scale scale, const Options& options) {
  paper::Results results{&experiment, scale, {}};
  const auto kept = paper::read_kept(experiment, scale, options.out);
  const auto file = paper::kept_file(experiment, scale, options.out).string();
  if (!kept) say(fmt::format("{} is not there: nothing was kept; without --show it is computed", file));
  for (const auto& cell : cells) {
    const auto* found = kept ? kept->find(cell.row, cell.column) : nullptr;
    results.cells.push_back(found ? *found : paper::CellResult{cell, 0, {}, {}, {}});
  }
  const auto seeds = paper::seeds_of(results);
  if (seeds > 0 && options.seeds > 0 && seeds != options.seeds) {
    say(fmt::format("{} was computed with {} seeds, and is shown with them; without --show {} are taken",
                    file, seeds, options.seeds));
  }
  return results;
}

void keep(const paper::Results& results, const Options& options) {
  const auto file = paper::kept_file(*results.experiment, results.scale, options.out).string();
  if (paper::keep_results(results, options.out)) {
    say("kept in " + file);
  } else {
    say(fmt::format("not kept in {}: --only took some of the cells alone", file));
  }
}

void reproduce(const Options& options, const Context& context) {
  const auto& experiment = paper::find_experiment(options.name);
  const auto scale = paper::scale_from_string(options.scale);
  const auto cells = paper::choose_cells(experiment, options.only);
  const auto seeds = options.seeds > 0 ? options.seeds : experiment.seeds;
  const paper::RunStore store(options.out, scale);
  for (const auto& complaint : store.complaints()) say(complaint);
  if (options.dry_run) {
    if (experiment.compute) {
      fmt::print("{} is computed directly: no runs, less than a minute on two cores, and then kept in {}\n",
                 experiment.name, paper::kept_file(experiment, scale, options.out).string());
    } else {
      set_threads(options.circumstances.threads);
      auto jobs = paper::make_plan(cells, seeds, scale, options.circumstances, options.out);
      paper::time_networks(jobs, scale, say);
      show_plan(jobs, scale);
    }
    return;
  }
  set_threads(options.circumstances.threads);
  paper::Results results{&experiment, scale, {}};
  const bool computes = experiment.compute && !options.show;
  if (computes) {
    results = compute(experiment, cells, seeds, scale, context);
  } else if (experiment.compute) {
    results = show_kept(experiment, cells, scale, options);
  } else {
    if (!options.show) run_missing(cells, seeds, scale, options, context);
    results = paper::collect_results(experiment, cells, seeds, scale, options.circumstances, options.out);
  }
  const auto verdict = paper::judge(results);
  fmt::print("{}", paper::format_results(results, verdict, options.format));
  if (computes) keep(results, options);
  if (experiment.axis != paper::Experiment::Axis::kNone) write_figures(results, verdict, options);
  if (!options.html.empty()) {
    files::write(options.html, paper::experiment_page(results, verdict));
    say("open in a browser: " + fs::absolute(options.html).string());
  }
}

}  // namespace

void add_paper(CLI::App& app, const Context& context) {
  auto* command = app.add_subcommand(
      "paper", "the paper's tables, figures and theorems: runs what is missing, prints ours beside theirs");
  const auto options = std::make_shared<Options>();
  std::string names = "list, results (a document about all runs and kept theorems in --out)";
  for (const auto& experiment : paper::experiments()) names += ", " + experiment.name;
  command->add_option("NAME", options->name, names)->required();
  command->add_option("--only", options->only, "ROW,COLUMN: these cells alone; either may be empty");
  command->add_option("--seeds", options->seeds, "seeds 1 … N (default: 1; 5 for theorem1, 32 for theorem2)")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option(
          "--scale", options->scale,
          "full (the paper's), short (a tenth of the epochs) or smoke (a stand-in network, one epoch)")
      ->capture_default_str();
  command
      ->add_option("--out", options->out,
                   "folder of the runs, SCALE/RUN in it, and of kept theorems; copied ones count")
      ->capture_default_str();
  auto* dry_run =
      command->add_flag("--dry-run", options->dry_run, "say what would run and how long it may take");
  command
      ->add_option("--jobs", options->jobs,
                   "runs at once, each in a process of its own; on a CPU they share its cores")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  command->add_flag("--worker", options->worker, "one of several processes that --jobs started")->group("");
  command->add_flag("--show", options->show,
                    "run and compute nothing: print what is there, and leave the rest empty");
  command->add_option("--format", options->format, "table, md, csv or json")
      ->capture_default_str()
      ->check(CLI::IsMember(paper::result_formats()));
  command
      ->add_option("--html", options->html,
                   "also write a web page: the table or figure, the claim, the verdict, the runs' curves")
      ->excludes(dry_run);
  auto& circumstances = options->circumstances;
  command->add_option("--device", circumstances.device, "auto, cpu or cuda")->capture_default_str();
  command
      ->add_option("--precision", circumstances.precision,
                   "of networks on a GPU: fp32, tf32 or bf16 (where they can be); auto: tf32 for images")
      ->capture_default_str();
  command->add_option("--threads", circumstances.threads,
                      "of the CPU (default: $OMP_NUM_THREADS, else all cores)");
  command->add_option("--data-dir", circumstances.data_dir, "where to look for data sets first");
  command->callback([options, &context] {
    if (fs::exists(options->out) && !fs::is_directory(options->out)) {
      throw std::invalid_argument(
          fmt::format("--out is {}, which is a file; give the folder of the runs", options->out));
    }
    // Before hours of runs, not after them.
    if (const auto folder = fs::path(options->html).parent_path();
        !folder.empty() && !fs::is_directory(folder)) {
      throw std::invalid_argument(
          fmt::format("--html is {}, but {} is no folder; make it first", options->html, folder.string()));
    }
    const bool about_all = options->name == "list" || options->name == "results";
    if (about_all && !options->html.empty()) {
      throw std::invalid_argument(
          fmt::format("--html is for one table, figure or theorem, not for {}", options->name));
    }
    if (auto& threads = options->circumstances.threads; options->jobs > 1 && threads == 0) {
      threads = std::max<int64_t>(1, std::thread::hardware_concurrency() / options->jobs);
    }
    if (options->name == "list") {
      list(*options);
    } else if (options->name == "results") {
      write_document(*options);
    } else {
      reproduce(*options, context);
    }
  });
}

}  // namespace stiefel::app
