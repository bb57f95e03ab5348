#pragma once

#include <cstdint>
#include <string>

#include "command.h"
#include "paper/jobs/run_spec.h"

/// The parts of `stiefel paper`.
namespace stiefel::app {

struct PaperOptions {
  std::string name;
  std::string only;
  std::string scale = "full";
  std::string out = "runs/paper";
  std::string format = "table";
  std::string html;
  int64_t seeds = 0;
  int64_t jobs = 1;
  bool dry_run = false;
  int64_t starter = 0;  ///< of a worker: the process that started it
  bool show = false;
  paper::RunEnvironment environment;
};

/// All experiments, and what of them is there.
void list_experiments(const PaperOptions& options);

/// The document about all runs on the standard output, its drawings beside the runs.
void write_document(const PaperOptions& options);

/// One experiment: runs or computes what is missing, and prints it.
void reproduce(const PaperOptions& options, const Context& context);

}  // namespace stiefel::app
