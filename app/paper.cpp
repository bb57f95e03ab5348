#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <thread>

#include "base/output_format.h"
#include "base/printable.h"
#include "command.h"
#include "data/places.h"
#include "number_options.h"
#include "paper/jobs/workers.h"
#include "paper/publish/formats.h"
#include "paper/registry.h"
#include "paper_parts.h"

namespace stiefel::app {

namespace fs = std::filesystem;

namespace {

/// The numbers of seeds that are taken where none is given: "1; 5 for theorem1".
std::string usual_seeds() {
  std::string text = "1";
  for (const auto& experiment : paper::experiments()) {
    if (experiment.seeds != 1) text += fmt::format("; {} for {}", experiment.seeds, experiment.name);
  }
  return text;
}

}  // namespace

void add_paper(CLI::App& app, const Context& context) {
  auto* command = app.add_subcommand(
      "paper", "the paper's tables, figures and theorems: runs what is missing, prints ours beside theirs");
  const auto options = std::make_shared<PaperOptions>();
  std::string names = "list, results (a document about all runs and kept theorems in --out)";
  for (const auto& experiment : paper::experiments()) names += ", " + experiment.name;
  command->add_option("NAME", options->name, names)->required();
  command->add_option("--only", options->only, "ROW,COLUMN: these cells alone; either may be empty");
  command->add_option("--seeds", options->seeds, "seeds 1 … N (default: " + usual_seeds() + ")")
      ->transform(whole_number(1, 1000));
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
      ->transform(whole_number(1, 64));
  command
      ->add_option(paper::Workers::kOption, options->starter, "one of several processes that --jobs started")
      ->group("");
  command->add_flag("--show", options->show,
                    "run and compute nothing: print what is there, and leave the rest empty");
  command->add_option("--format", options->format, "table, md, csv or json")
      ->capture_default_str()
      ->check(CLI::IsMember(base::output_formats()));
  command
      ->add_option("--html", options->html,
                   "also write a web page: the table or figure, the claim, the verdict, the runs' curves")
      ->excludes(dry_run);
  auto& environment = options->environment;
  command->add_option("--device", environment.device, "auto, cpu or cuda")->capture_default_str();
  command
      ->add_option("--precision", environment.precision,
                   "of networks on a GPU: fp32, tf32 or bf16 (where they can be); auto: tf32 for images")
      ->capture_default_str();
  command
      ->add_option("--threads", environment.threads, "of the CPU (default: $OMP_NUM_THREADS, else all cores)")
      ->transform(whole_number());
  command->add_option("--data-dir", environment.data_dir, data::kDataDirHelp);
  command->callback([options, &context] {
    if (fs::exists(options->out) && !fs::is_directory(options->out)) {
      throw std::invalid_argument(fmt::format("--out is {}, which is a file; give the folder of the runs",
                                              base::printable(options->out)));
    }
    // Before hours of runs, not after them.
    if (fs::is_directory(options->html)) {
      throw std::invalid_argument(
          fmt::format("--html is {}, a folder; name a file", base::printable(options->html)));
    }
    if (const auto folder = fs::path(options->html).parent_path();
        !folder.empty() && !fs::is_directory(folder)) {
      throw std::invalid_argument(fmt::format("--html is {}, but {} is no folder; make it first",
                                              base::printable(options->html), base::printable(folder)));
    }
    if (options->starter != 0) paper::Workers::follow(options->starter);
    const bool about_all = options->name == "list" || options->name == "results";
    if (about_all && !options->html.empty()) {
      throw std::invalid_argument(
          fmt::format("--html is for one table, figure or theorem, not for {}", options->name));
    }
    if (auto& threads = options->environment.threads;
        options->jobs > 1 && threads == 0 && std::getenv("OMP_NUM_THREADS") == nullptr) {
      threads = std::max<int64_t>(1, std::thread::hardware_concurrency() / options->jobs);
    }
    if (options->name == "list") {
      list_experiments(*options);
    } else if (options->name == "results") {
      write_document(*options);
    } else {
      reproduce(*options, context);
    }
  });
}

}  // namespace stiefel::app
