#include <fmt/format.h>
#include <fmt/ranges.h>

#include <exception>

#include "base/files.h"
#include "base/printable.h"
#include "base/standard_streams.h"
#include "paper/jobs/cached_results.h"
#include "paper/jobs/plan.h"
#include "paper/publish/document.h"
#include "paper/registry.h"
#include "paper_parts.h"

namespace stiefel::app {

namespace {

std::string kept_or_not(const paper::Experiment& experiment, paper::Scale scale,
                        const PaperOptions& options) {
  try {
    return paper::read_cached_results(experiment, scale, options.out) ? "kept" : "–";
  } catch (const std::exception&) {
    return "damaged";  // the command that shows it says how
  }
}

std::string runs_done(const paper::Experiment& experiment, paper::Scale scale, const PaperOptions& options) {
  if (experiment.compute) return kept_or_not(experiment, scale, options);
  const auto jobs = paper::make_plan(experiment.cells, 1, scale, options.environment, options.out);
  int64_t done = 0;
  for (const auto& job : jobs) done += job.state == paper::Job::State::kDone ? 1 : 0;
  return fmt::format("{} of {}", done, jobs.size());
}

}  // namespace

void list_experiments(const PaperOptions& options) {
  fmt::print("{:10}{:>12}{:>12}{:>12}  {}\n", "", "smoke", "short", "full",
             "runs done in " + base::printable(options.out));
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

void write_document(const PaperOptions& options) {
  const auto document = paper::make_document(options.out);
  for (const auto& complaint : document.complaints) base::say(complaint);
  for (const auto& [file, svg] : document.drawings) {
    base::write_file(file, svg);
    base::say("wrote " + base::printable(file));
  }
  fmt::print("{}", document.markdown);
}

}  // namespace stiefel::app
