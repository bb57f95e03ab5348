#pragma once

#include <CLI/CLI.hpp>
#include <stdexcept>
#include <string>
#include <vector>

/// The `stiefel` command: a file per sub-command. Each adds itself to the application and, when chosen, runs
/// from its callback; an exit status other than 0 is thrown as Exit.
namespace stiefel::app {

/// Ends the program with a status other than success. Whoever throws it has printed the reason.
struct Exit {
  int status;
};

/// The whole command line, for run.json.
struct Context {
  std::vector<std::string> command;
};

void add_train(CLI::App& app, const Context& context);
void add_resume(CLI::App& app, const Context& context);
void add_eval(CLI::App& app);
void add_check(CLI::App& app);
void add_export(CLI::App& app);
void add_info(CLI::App& app);
void add_report(CLI::App& app);
void add_data(CLI::App& app);
void add_bench(CLI::App& app, const Context& context);
void add_unitariness(CLI::App& app);
void add_paper(CLI::App& app, const Context& context);

}  // namespace stiefel::app
