#include "checkpoint_content.h"

#include <fmt/format.h>

#include <stdexcept>

#include "config.h"
#include "models/network.h"
#include "train/message.h"
#include "train/network.h"

namespace stiefel::train {

namespace {

Config config_of(const Checkpoints::Loaded& loaded) {
  try {
    auto config = config_from_toml(loaded.config, "its config");
    config.resolve();
    return config;
  } catch (const std::invalid_argument& error) {
    throw std::runtime_error(
        fmt::format("{}: was not written by this version: {}", loaded.path.string(), error.what()));
  }
}

template <class Restore>
void try_restore(const Checkpoints::Loaded& loaded, Restore&& restore) {
  try {
    restore();
  } catch (const std::exception& error) {
    const auto message = message_of(error);
    throw std::runtime_error(fmt::format("{}: is whole, but what it holds cannot be restored: {}",
                                         loaded.path.string(), message.substr(0, message.find('\n'))));
  }
}

}  // namespace

void check_content(const Checkpoints::Loaded& loaded) {
  const auto config = config_of(loaded);
  try_restore(loaded, [&] {
    const auto model = make_network(config);
    restore(loaded, *model, nullptr);  // first, for optimisers look at the weights that they are given
    auto optimisers = find_method(config.optim).make(split_for(*model, config), config);
    restore(loaded, *model, &optimisers);
  });
}

void check_network(const Checkpoints::Loaded& loaded) {
  const auto config = config_of(loaded);
  try_restore(loaded, [&] { restore(loaded, *make_network(config), nullptr); });
}

}  // namespace stiefel::train
