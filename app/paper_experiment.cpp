#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdio_ext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <stdexcept>

#include "base/files.h"
#include "base/folder_lock.h"
#include "base/format_number.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "base/progress_line.h"
#include "base/standard_streams.h"
#include "base/table.h"
#include "bench/threads.h"
#include "paper/jobs/cached_results.h"
#include "paper/jobs/network_timing.h"
#include "paper/jobs/results.h"
#include "paper/jobs/runner.h"
#include "paper/jobs/workers.h"
#include "paper/publish/figure_svg.h"
#include "paper/publish/formats.h"
#include "paper/publish/page.h"
#include "paper/registry.h"
#include "paper_parts.h"

namespace stiefel::app {

namespace fs = std::filesystem;

namespace {

/// While it exists, the standard output goes to the error stream, so that a run's lines do not mix with
/// results.
class RedirectOutput {
 public:
  RedirectOutput() : original_(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)) {
    redirect(STDERR_FILENO);
    failed_ = std::ferror(stdout) != 0;
  }
  ~RedirectOutput() {
    redirect(original_);
    close(original_);
    if (!failed_) std::clearerr(stdout);  // the error stream's failures are not the output's
  }
  RedirectOutput(const RedirectOutput&) = delete;
  RedirectOutput& operator=(const RedirectOutput&) = delete;

 private:
  static void redirect(int to) {
    // What could not be written must not go where the next lines go.
    if (std::fflush(stdout) != 0) __fpurge(stdout);
    dup2(to, STDOUT_FILENO);
  }
  int original_;
  bool failed_ = false;
};

void show_plan(const std::vector<paper::Job>& jobs, int64_t at_once, paper::Scale scale) {
  if (scale != paper::Scale::kFull) fmt::print("{}\n", paper::mark(scale));
  base::Table table({"state", "run", "length", "time"}, "llrl");
  for (const auto& job : jobs) {
    const char* state = job.state == paper::Job::State::kDone          ? "done"
                        : job.state == paper::Job::State::kInterrupted ? "goes on"
                                                                       : "runs";
    std::string time;
    if (job.state != paper::Job::State::kDone) {
      time = job.seconds ? fmt::format("about {}, by {}", base::format_duration(*job.seconds), job.basis)
                         : std::string("time unknown");
    }
    const auto amount = job.spec.unitariness ? fmt::format("{} iterations", job.spec.unitariness->iterations)
                                             : fmt::format("{} epochs", job.spec.config.epochs);
    table.add({state, job.spec.name, amount, time});
  }
  if (!jobs.empty()) fmt::print("{}", table.text());
  fmt::print("{}\n", to_string(paper::time_left(jobs, at_once)));
}

/// The command that a worker runs: this one, alone.
std::vector<std::string> worker_arguments(const PaperOptions& options) {
  const auto& environment = options.environment;
  std::vector<std::string> words{"paper", options.name, "--scale", options.scale, "--out", options.out};
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  add("--only", options.only);
  add("--seeds", options.seeds > 0 ? std::to_string(options.seeds) : "");
  add("--device", environment.device);
  add("--precision", environment.precision);
  add("--threads", environment.threads > 0 ? std::to_string(environment.threads) : "");
  add("--data-dir", environment.data_dir);
  return words;
}

/// The command for a run's record: a worker's without the option that makes it one.
std::vector<std::string> recorded_command(const PaperOptions& options, const Context& context) {
  auto command = context.command;
  if (options.starter != 0) {
    const auto worker = std::find(command.begin(), command.end(), paper::Workers::kOption);
    command.erase(worker, command.end());  // it comes last, with its value
  }
  return command;
}

/// Runs what is missing, and returns the names of runs that failed; throws Exit where a signal came.
std::vector<std::string> run_missing(const std::vector<paper::Cell>& cells, int64_t seeds, paper::Scale scale,
                                     const PaperOptions& options, const Context& context) {
  auto jobs = paper::make_plan(cells, seeds, scale, options.environment, options.out);
  paper::check_data(jobs);
  const RedirectOutput redirect;
  const base::InterruptGuard interrupts;  // a signal waits until the workers have been stopped
  if (options.starter == 0) paper::time_networks(jobs, scale, base::say);
  const auto missing = std::count_if(jobs.begin(), jobs.end(),
                                     [](const auto& job) { return job.state != paper::Job::State::kDone; });
  std::optional<paper::Workers> workers;
  if (const auto others = std::min<int64_t>(options.jobs, missing) - 1; others > 0) {
    workers.emplace(others, worker_arguments(options), fs::path(options.out) / to_string(scale));
  }
  auto outcome =
      paper::run_jobs(jobs, options.jobs, options.out, scale, recorded_command(options, context), base::say);
  if (workers) outcome.signal = workers->finish(outcome.signal, base::say);
  if (outcome.signal == 0) return outcome.failed;
  base::say(
      fmt::format("stopped by {}; the same command goes on from there", base::signal_name(outcome.signal)));
  throw Exit{128 + outcome.signal};
}

void write_figures(const paper::Results& results, const paper::Verdict& verdict,
                   const PaperOptions& options) {
  const auto folder = fs::path(options.out) / to_string(results.scale);
  if (!fs::is_directory(folder)) return;             // nothing is there to draw
  const auto lock = base::FolderLock::take(folder);  // another command may be drawing the same
  for (const auto& panel : results.experiment->columns()) {
    const auto svg = paper::draw_panel(results, verdict, panel);
    if (svg.empty()) continue;
    const auto file = folder / fmt::format("{}-{}.svg", results.experiment->name, panel);
    base::write_file(file, svg);
    base::say("wrote " + base::printable(file));
  }
}

/// Computes the cells.
paper::Results compute(const paper::Experiment& experiment, const std::vector<paper::Cell>& cells,
                       int64_t seeds, paper::Scale scale, const Context& context) {
  paper::Results results{&experiment, scale, {}};
  for (const auto& cell : cells) results.cells.push_back({cell, seeds, {}, {}, {}});
  base::ProgressLine progress;
  experiment.compute(results, seeds, [&](const std::string& what) { progress.now(what); });
  progress.done();
  for (auto& result : results.cells) {
    for (auto& one : result.measured) one.origin["command"] = context.command;
  }
  return results;
}

/// What a computation found earlier, in the cells that were chosen.
paper::Results show_kept(const paper::Experiment& experiment, const std::vector<paper::Cell>& cells,
                         paper::Scale scale, const PaperOptions& options) {
  paper::Results results{&experiment, scale, {}};
  const auto kept = paper::read_cached_results(experiment, scale, options.out);
  const auto file = base::printable(paper::cached_results_file(experiment, scale, options.out));
  if (!kept) base::say(fmt::format("{} is not there: nothing was kept; without --show it is computed", file));
  for (const auto& cell : cells) {
    const auto* found = kept ? kept->find(cell.row, cell.column) : nullptr;
    results.cells.push_back(found ? *found : paper::CellResult{cell, 0, {}, {}, {}});
  }
  const auto seeds = paper::seeds_of(results);
  if (seeds > 0 && options.seeds > 0 && seeds != options.seeds) {
    base::say(
        fmt::format("{} was computed with {} seeds, and is shown with them; without --show {} are taken",
                    file, seeds, options.seeds));
  }
  return results;
}

void keep(const paper::Results& results, const PaperOptions& options) {
  const auto file =
      base::printable(paper::cached_results_file(*results.experiment, results.scale, options.out));
  if (paper::cache_results(results, options.out)) {
    base::say("kept in " + file);
  } else {
    base::say(fmt::format("not kept in {}: --only took some of the cells alone", file));
  }
}

/// Throws where some run failed; called after everything else has been done and shown.
void throw_if_failed(const std::vector<std::string>& failed) {
  if (failed.empty()) return;
  throw std::runtime_error(
      fmt::format("{}: failed, as said above; the same command tries again", fmt::join(failed, ", ")));
}

}  // namespace

void reproduce(const PaperOptions& options, const Context& context) {
  const auto& experiment = paper::find_experiment(options.name);
  const auto scale = paper::scale_from_string(options.scale);
  const auto cells = paper::choose_cells(experiment, options.only);
  const auto seeds = options.seeds > 0 ? options.seeds : experiment.seeds;
  const paper::RunStore store(options.out, scale);
  for (const auto& complaint : store.complaints()) base::say(complaint);
  if (options.dry_run) {
    if (experiment.compute) {
      fmt::print("{} is computed directly: no runs, less than a minute on two cores, and then kept in {}\n",
                 experiment.name,
                 base::printable(paper::cached_results_file(experiment, scale, options.out)));
    } else {
      bench::set_threads(options.environment.threads);
      auto jobs = paper::make_plan(cells, seeds, scale, options.environment, options.out);
      paper::time_networks(jobs, scale, base::say);
      show_plan(jobs, options.jobs, scale);
      try {
        paper::check_data(jobs);
      } catch (const std::exception& missing) {
        base::say(missing.what());
      }
    }
    return;
  }
  bench::set_threads(options.environment.threads);
  paper::Results results{&experiment, scale, {}};
  std::vector<std::string> failed;
  const bool computes = experiment.compute && !options.show;
  if (computes) {
    results = compute(experiment, cells, seeds, scale, context);
  } else if (experiment.compute) {
    results = show_kept(experiment, cells, scale, options);
  } else {
    if (!options.show) failed = run_missing(cells, seeds, scale, options, context);
    if (options.starter != 0) return throw_if_failed(failed);
    results = paper::collect_results(experiment, cells, seeds, scale, options.environment, options.out);
  }
  const auto verdict = paper::judge(results);
  fmt::print("{}", paper::format_results(results, verdict, options.format));
  if (computes) keep(results, options);
  const bool whole = cells.size() == experiment.cells.size();
  if (experiment.axis != paper::Experiment::Axis::kNone && whole) write_figures(results, verdict, options);
  if (!options.html.empty()) {
    base::write_file(options.html, paper::experiment_page(results, verdict));
    base::say("open in a browser: " + base::printable(fs::absolute(options.html)));
  }
  throw_if_failed(failed);
}

}  // namespace stiefel::app
