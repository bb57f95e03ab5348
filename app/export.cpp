#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "command.h"
#include "files/files.h"
#include "run_model.h"
#include "train/safetensors.h"

namespace stiefel::app {

void add_export(CLI::App& app) {
  auto* command = app.add_subcommand("export", "write a run's weights for other programs");
  struct Options {
    std::string run;
    std::string format = "safetensors";
    std::string out;
    bool last = false;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("RUN", options->run, "the run's folder")->required();
  command->add_option("--format", options->format, "file format")
      ->capture_default_str()
      ->check(CLI::IsMember({"safetensors"}));
  command->add_option("-o,--out", options->out, "file to write (default: RUN/model.safetensors)");
  command->add_flag("--last", options->last, "the last checkpoint instead of the best");
  command->callback([options] {
    const auto run = open_run(options->run, options->last);
    const auto model = build_network(run);
    std::vector<std::pair<std::string, at::Tensor>> tensors;
    for (const auto& item : model->named_parameters()) tensors.emplace_back(item.key(), item.value());
    for (const auto& item : model->named_buffers()) tensors.emplace_back(item.key(), item.value());
    const auto path = options->out.empty() ? std::filesystem::path(options->run) / "model.safetensors"
                                           : std::filesystem::path(options->out);
    const auto bytes =
        train::to_safetensors(tensors, {{"model", run.config.model},
                                        {"data", run.config.data},
                                        {"optim", run.config.optim},
                                        {"epoch", std::to_string(run.checkpoint.progress.epoch)}});
    files::write(path, bytes);
    fmt::print("{}: {} tensors, {:.1f} MiB\n", path.string(), tensors.size(),
               static_cast<double>(bytes.size()) / (1 << 20));
  });
}

}  // namespace stiefel::app
