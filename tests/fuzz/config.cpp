#include "record/config.h"

#include <stdexcept>

#include "errors.h"

// config.toml: refused by std::invalid_argument, or the same options when it is written and read again. A
// value that a config file cannot hold is refused when it is written.

namespace config_target {

FUZZ_TARGET(config) {
  using namespace stiefel::record;
  const std::string text(input);
  for (const auto& entry : parse_config_entries(text).entries) {
    entry.value();
    entry.values();
  }
  Config config;
  const auto refused = [&](const auto& act) { return !fuzz::reads<std::invalid_argument>(act); };
  if (refused([&] { config = config_from_toml(text, "config.toml"); })) return;
  std::string written;
  if (refused([&] { written = to_toml(config); })) return;
  fuzz::require(differences(config, config_from_toml(written, "config.toml")).empty(),
                "options change when they are written");
}

}  // namespace config_target
