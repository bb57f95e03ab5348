#include "checkpoint_content.h"

#include <fmt/format.h>

#include <stdexcept>

#include "base/printable.h"
#include "message.h"
#include "methods.h"
#include "models/network.h"
#include "network.h"
#include "resolve_config.h"

namespace stiefel::train {

namespace {

Config checkpoint_config(const record::Checkpoints::Loaded& loaded) {
  try {
    auto config = record::config_from_toml(loaded.config, "its config");
    resolve(config);
    return config;
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(
        fmt::format("{}: was not written by this version: {}", base::printable(loaded.path), error.what()));
  }
}

template <class Restore>
void try_restore(const record::Checkpoints::Loaded& loaded, Restore&& restore_content) {
  try {
    restore_content();
  } catch (const std::exception& error) {
    const auto message = message_of(error);
    throw std::runtime_error(fmt::format("{}: is whole, but what it holds cannot be restored: {}",
                                         base::printable(loaded.path),
                                         message.substr(0, message.find('\n'))));
  }
}

}  // namespace

void check_content(const record::Checkpoints::Loaded& loaded) {
  const auto config = checkpoint_config(loaded);
  try_restore(loaded, [&] {
    const auto model = make_network(config);
    record::restore(loaded, *model,
                    nullptr);  // first, because optimisers inspect the weights that they are given
    auto optimizers = make_optimizers(*model, config);
    record::restore(loaded, *model, &optimizers);
  });
}

void check_network(const record::Checkpoints::Loaded& loaded) {
  const auto config = checkpoint_config(loaded);
  try_restore(loaded, [&] { record::restore(loaded, *make_network(config), nullptr); });
}

}  // namespace stiefel::train
