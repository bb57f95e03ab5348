#include <fmt/format.h>
#include <stiefel/manifold.h>
#include <stiefel/parameters.h>

#include <memory>

#include "command.h"
#include "run_model.h"
#include "train/methods.h"

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
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--last", options->last, "the last checkpoint instead of the best");
  command->callback([options] {
    const auto run = open_run(options->run, options->last);
    if (!train::find_method(run.config.optim).constrained) {
      throw std::runtime_error(fmt::format("{} was trained with {}, which has no orthonormal weights",
                                           options->run, run.config.optim));
    }
    const auto model = build_network(run);
    const auto split = split_parameters(*model);
    size_t width = 6;
    for (const auto& name : split.manifold_names) width = std::max(width, name.size());
    fmt::print("{:{}}  {:>12}  {:>9}\n", "weight", width, "p × n", "defect");
    int64_t above = 0;
    for (size_t i = 0; i < split.manifold.size(); ++i) {
      const MatrixView view(split.manifold[i]);
      const double defect = stiefel::defect(split.manifold[i]).item<double>();
      const bool bad = !(defect <= options->tolerance);
      above += bad ? 1 : 0;
      fmt::print("{:{}}  {:>12}  {:9.2e}{}\n", split.manifold_names[i], width,
                 fmt::format("{} × {}", view.p(), view.n()), defect, bad ? "  above the tolerance" : "");
    }
    if (above > 0) {
      fmt::print(stderr, "{} of {} weights are off the manifold by more than {}\n", above,
                 split.manifold.size(), options->tolerance);
      throw Exit{1};
    }
    fmt::print("all {} are orthonormal to {}\n", split.manifold.size(), options->tolerance);
  });
}

}  // namespace stiefel::app
