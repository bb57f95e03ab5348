#include <fmt/format.h>

#include <memory>

#include "base/printable.h"
#include "base/standard_streams.h"
#include "base/table.h"
#include "command.h"
#include "number_options.h"
#include "record/method_facts.h"
#include "run_model.h"
#include "train/orthonormality.h"

namespace stiefel::app {

void add_check(CLI::App& app) {
  auto* command = app.add_subcommand("check", "the defect ‖XᴴX − I‖ of every orthonormal weight of a run");
  struct Options {
    std::string run;
    double tolerance = 1e-3;
    bool last = false;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("RUN", options->run, "the run's folder")->required();
  command->add_option("--tolerance", options->tolerance, "the exit status is 1 above it")
      ->capture_default_str()
      ->check(number({0, 1e12}));
  command->add_flag("--last", options->last, "the last checkpoint instead of the best");
  command->callback([options] {
    const auto run = open_run(options->run, options->last);
    if (!train::constrains_weights(run.config)) {
      throw std::runtime_error(fmt::format("{} was trained with {}, which has no orthonormal weights",
                                           base::printable(options->run), run.config.optim));
    }
    const auto weights = train::measure_orthonormality(*build_network(run), run.config);
    base::Table table({"weight", "p × n", "defect", ""}, "lrrl");
    int64_t above = 0;
    for (const auto& weight : weights) {
      const bool bad = !(weight.defect <= options->tolerance);
      above += bad ? 1 : 0;
      table.add({weight.name, fmt::format("{} × {}", weight.p, weight.n),
                 fmt::format("{:.2e}", weight.defect), bad ? "above the tolerance" : ""});
    }
    fmt::print("{}", table.text());
    if (const double bound = record::optimizer_facts(run.config.optim).defect_bound; bound > 0) {
      base::say(fmt::format("--optim {} bounds the defect, by {}, and does not make it zero",
                            run.config.optim, bound));
    }
    if (above > 0) {
      base::say(fmt::format("{} of {} weights are off the manifold by more than {}", above, weights.size(),
                            options->tolerance));
      throw Exit{1};
    }
    fmt::print("all {} are orthonormal to {}\n", weights.size(), options->tolerance);
  });
}

}  // namespace stiefel::app
