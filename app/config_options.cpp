#include "config_options.h"

#include <type_traits>

#include "base/files.h"
#include "number_options.h"
#include "train/resolve_config.h"

namespace stiefel::app {

namespace {

template <class Value>
constexpr bool is_optional = false;
template <class Value>
constexpr bool is_optional<std::optional<Value>> = true;

/// Whether the option holds numbers of this kind: one, perhaps one, or several.
template <class Value, class Number>
constexpr bool holds = std::is_same_v<Value, Number> || std::is_same_v<Value, std::optional<Number>> ||
                       std::is_same_v<Value, std::vector<Number>>;

}  // namespace

void ConfigOptions::add(CLI::App& command) {
  command_ = &command;
  command.add_option("--config", file_, "TOML file with any of these options; the command line overrides it")
      ->check(CLI::ExistingFile);
  record::Config::visit(given_, [&](const char* name, auto& value, const char* help) {
    using Value = std::decay_t<decltype(value)>;
    const std::string flag = std::string("--") + name;
    if constexpr (std::is_same_v<Value, bool>) {
      command.add_flag(flag + ",!--no-" + name, value,
                       std::string(help) + (value ? " (default: on)" : " (default: off)"));
    } else {
      auto* option = command.add_option(flag, value, help);
      if constexpr (holds<Value, int64_t>) option->transform(whole_number());
      if constexpr (holds<Value, double>) option->check(number());
      if constexpr (std::is_same_v<Value, std::vector<double>>) {
        option->delimiter(',');
      } else if constexpr (!is_optional<Value>) {
        option->capture_default_str();
      }
    }
  });
}

record::Config ConfigOptions::resolved() const {
  auto config = file_.empty() ? record::Config{} : record::config_from_toml(base::read_stream(file_), file_);
  // Both lists are the same, in the same order: take over what the command line named.
  std::vector<const void*> given;
  record::Config::visit(given_,
                        [&](const char*, const auto& value, const char*) { given.push_back(&value); });
  size_t i = 0;
  record::Config::visit(config, [&](const char* name, auto& value, const char*) {
    const auto* from = static_cast<const std::decay_t<decltype(value)>*>(given[i++]);
    if (command_->get_option(std::string("--") + name)->count() > 0) value = *from;
  });
  train::resolve(config);
  return config;
}

}  // namespace stiefel::app
