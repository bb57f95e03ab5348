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
  int64_t starter = 0;  ///< the id of the process that started this worker; 0 in a command that is none
  bool show = false;
  paper::RunEnvironment environment;
};

/// Prints all experiments and how many of their runs are there.
void list_experiments(const PaperOptions& options);

/// Writes the document about all runs to the standard output, and its drawings beside the runs.
void write_document(const PaperOptions& options);

/// Runs or computes what is missing of one experiment, and prints its results.
void reproduce(const PaperOptions& options, const Context& context);

}  // namespace stiefel::app
