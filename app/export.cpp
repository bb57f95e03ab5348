#include <fmt/format.h>
#include <stiefel/nn/parametrized.h>

#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include "base/files.h"
#include "base/printable.h"
#include "command.h"
#include "record/kept_run.h"
#include "record/safetensors.h"
#include "run_model.h"

namespace stiefel::app {

namespace {

using Tensors = std::vector<std::pair<std::string, at::Tensor>>;

/// Parameters and buffers by name. A parametrised layer gives its weight in place of what the weight is made
/// from, so that other programs find a plain network.
Tensors exported(const models::Network& model) {
  const torch::NoGradGuard no_grad;
  Tensors tensors;
  std::set<std::string> replaced;
  for (const auto& item : model.named_modules()) {
    if (const auto* layer = item.value()->as<nn::ParametrizedConv2dImpl>()) {
      tensors.emplace_back(item.key() + ".weight", layer->weight());
      replaced.insert({item.key() + ".proxy", item.key() + ".base"});
    }
  }
  const auto add = [&](const auto& named) {
    for (const auto& item : named) {
      if (replaced.count(item.key()) > 0) continue;
      // The format has no complex numbers that every reader knows: pairs of reals, a last dimension of 2.
      const auto& value = item.value();
      tensors.emplace_back(item.key(), value.is_complex() ? at::view_as_real(value) : value);
    }
  };
  add(model.named_parameters());
  add(model.named_buffers());
  return tensors;
}

void export_weights(const std::string& folder, bool last, const std::filesystem::path& path) {
  const auto run = open_run(folder, last);
  const auto model = build_network(run);
  const auto tensors = exported(*model);
  const auto bytes = record::to_safetensors(tensors, {{"model", run.config.model},
                                                      {"data", run.config.data},
                                                      {"optim", run.config.optim},
                                                      {"epoch", std::to_string(run.checkpoint.state.epoch)}});
  base::write_file(path, bytes);
  fmt::print("{}: {} tensors, {:.1f} MiB\n", base::printable(path), tensors.size(),
             static_cast<double>(bytes.size()) / (1 << 20));
}

void export_run(const std::string& folder, const std::filesystem::path& path) {
  const auto run = record::read_run_or_kept(folder);
  const auto text = record::kept_run_text(run);
  base::write_file(path, text);
  fmt::print("{}: {} epochs, {:.1f} KiB\n", base::printable(path), run.epochs.size(),
             static_cast<double>(text.size()) / (1 << 10));
}

/// Beside the run's folder: RUN.json.
std::filesystem::path file_beside(const std::string& folder) {
  auto plain = std::filesystem::absolute(folder).lexically_normal();
  if (!plain.has_filename()) plain = plain.parent_path();
  return plain += ".json";
}

}  // namespace

void add_export(CLI::App& app) {
  auto* command =
      app.add_subcommand("export", "write a run's weights for other programs, or the run as one small file");
  struct Options {
    std::string run;
    std::string format = "safetensors";
    std::string out;
    bool last = false;
  };
  const auto options = std::make_shared<Options>();
  command->add_option("RUN", options->run, "the run's folder")->required();
  command
      ->add_option("--format", options->format,
                   "safetensors: the weights; run: facts, config and rounded metrics as one JSON file, which "
                   "`report` and `paper` read like the folder")
      ->capture_default_str()
      ->check(CLI::IsMember({"safetensors", "run"}));
  command->add_option("-o,--out", options->out,
                      "file to write (default: RUN/model.safetensors; for a run RUN.json)");
  command->add_flag("--last", options->last, "the weights of the last checkpoint instead of the best");
  command->callback([options] {
    std::filesystem::path path = options->out;
    if (options->format == "run") {
      if (options->last) throw std::invalid_argument("--last chooses weights; --format run writes none");
      export_run(options->run, path.empty() ? file_beside(options->run) : path);
    } else {
      if (path.empty()) path = std::filesystem::path(options->run) / "model.safetensors";
      export_weights(options->run, options->last, path);
    }
  });
}

}  // namespace stiefel::app
