#pragma once

#include <CLI/CLI.hpp>

#include "record/config.h"

namespace stiefel::app {

/// Adds every option of a training run to a sub-command, and `--config FILE`, whose values the command line
/// overrides.
class ConfigOptions {
 public:
  void add(CLI::App& command);

  /// The config file's values, overridden by the command line's, resolved and checked.
  record::Config resolved() const;

 private:
  record::Config given_;
  std::string file_;
  CLI::App* command_ = nullptr;
};

}  // namespace stiefel::app
