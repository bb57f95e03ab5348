#include "run.h"

#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/printable.h"
#include "base/standard_streams.h"
#include "command.h"
#include "distributed/world.h"
#include "ranks.h"
#include "record/system.h"
#include "train/message.h"
#include "usage_errors.h"

namespace stiefel::app {

int run(int argc, char** argv) {
  base::open_missing_streams();
  CLI::App app(
      "Training with orthonormal weights: Cayley SGD, Cayley ADAM and Cayley Muon on the Stiefel manifold.",
      "stiefel");
  app.set_version_flag("--version", std::string("stiefel ") +
                                        record::version_facts()["stiefel"].get<std::string>() + " (" +
                                        record::commit() + ")");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  Context context;
  context.command.assign(argv, argv + argc);
  if (argc > 0) context.command[0] = "stiefel";  // a run's record does not depend on where the program lies
  add_train(app, context);
  add_resume(app, context);
  add_eval(app);
  add_check(app);
  add_export(app);
  add_report(app);
  add_data(app);
  add_bench(app, context);
  add_unitariness(app);
  add_paper(app, context);
  add_info(app);
  if (argc < 2) {
    base::say(app.help());
    return 2;
  }
  try {
    app.parse(argc, argv);
    return base::finish_output(0);
  } catch (const CLI::ParseError& error) {
    // --help and --version come this way too.
    if (error.get_exit_code() == 0) return base::finish_output(app.exit(error));
    base::say("stiefel: " + explain_usage_error(app, error, {argv + 1, argv + argc}));
    return 2;
  } catch (const Exit& exit) {
    return base::finish_output(exit.status);
  } catch (const distributed::SharedError& error) {
    // Every rank ends with it; one says it.
    if (!is_other_rank()) base::say(error_prefix() + base::printable_lines(train::message_of(error)));
  } catch (const std::invalid_argument& error) {
    // One line about a value that a user gave, which may hold anything.
    base::say(error_prefix() + base::printable(std::string(error.what())));
    return 2;
  } catch (const std::filesystem::filesystem_error& error) {
    base::say(error_prefix() + base::printable(std::string(error.what())));
  } catch (const std::exception& error) {
    base::say(error_prefix() + base::printable_lines(train::message_of(error)));
  }
  return 1;
}

}  // namespace stiefel::app
