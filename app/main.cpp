#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "command.h"
#include "train/system.h"

int main(int argc, char** argv) {
  using namespace stiefel::app;
  CLI::App app("Training with orthonormal weights: Cayley SGD and Cayley ADAM on the Stiefel manifold.",
               "stiefel");
  app.set_version_flag("--version", std::string("stiefel ") +
                                        stiefel::train::version_facts()["stiefel"].get<std::string>() + " (" +
                                        stiefel::train::commit() + ")");
  app.require_subcommand(1);
  app.get_formatter()->column_width(34);
  Context context;
  context.command.assign(argv, argv + argc);
  if (argc > 0) context.command[0] = "stiefel";  // where it lies is nothing to keep in a run's record
  add_train(app, context);
  add_resume(app, context);
  add_eval(app);
  add_check(app);
  add_export(app);
  add_report(app);
  add_data(app);
  add_bench(app);
  add_unitariness(app);
  add_paper(app, context);
  add_info(app);
  try {
    app.parse(argc, argv);
    return 0;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  } catch (const Exit& exit) {
    return exit.status;
  } catch (const c10::Error& error) {
    fmt::print(stderr, "stiefel: {}\n", error.what_without_backtrace());
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "stiefel: {}\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    fmt::print(stderr, "stiefel: {}\n", error.what());
  }
  return 1;
}
