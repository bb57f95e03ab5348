#include "config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "base/excerpt.h"
#include "base/numbers.h"
#include "base/printable.h"
#include "method_facts.h"

namespace stiefel::record {

namespace {

std::string quote(const std::string& text) {
  if (text.find_first_of("\"#\n") != std::string::npos) {
    throw std::invalid_argument(
        fmt::format("'{}' cannot be written into a config file: it holds a quote, a # or a line break",
                    base::printable(text)));
  }
  return '"' + text + '"';
}

// The shortest text that reads back as the same number.
std::string write(double value) { return fmt::format("{}", value); }
std::string write(int64_t value) { return fmt::format("{}", value); }
std::string write(bool value) { return value ? "true" : "false"; }
std::string write(const std::string& value) { return quote(value); }
std::string write(const std::vector<double>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }
template <class Value>
std::string write(const std::optional<Value>& value) {
  return value ? write(*value) : std::string();
}

[[noreturn]] void unreadable(const std::string& name, const std::string& value, const char* kind) {
  throw std::invalid_argument(fmt::format("{} = {}: expected {}", name, base::excerpt(value), kind));
}

/// What `parse` makes of the text; its errors name the option too.
template <class Parse>
auto parsed(const std::string& name, const std::string& value, const Parse& parse) {
  try {
    return parse(value);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", name, error.what()));
  }
}

void read(const std::string& name, const std::vector<std::string>& words, std::vector<double>& value) {
  value.clear();
  for (const auto& word : words) {
    if (!word.empty()) value.push_back(parsed(name, word, base::to_number));
  }
}

const std::string& only(const std::string& name, const std::vector<std::string>& words) {
  if (words.size() != 1) unreadable(name, fmt::format("{}", fmt::join(words, ", ")), "one value");
  return words[0];
}

void read(const std::string& name, const std::vector<std::string>& words, double& value) {
  value = parsed(name, only(name, words), base::to_number);
}
void read(const std::string& name, const std::vector<std::string>& words, std::string& value) {
  value = words.empty() ? "" : only(name, words);
}
void read(const std::string& name, const std::vector<std::string>& words, int64_t& value) {
  value = parsed(name, only(name, words), base::to_whole);
}
template <class Value>
void read(const std::string& name, const std::vector<std::string>& words, std::optional<Value>& value) {
  value.emplace();
  read(name, words, *value);
}
void read(const std::string& name, const std::vector<std::string>& words, bool& value) {
  const auto& text = only(name, words);
  if (text != "true" && text != "false") unreadable(name, text, "true or false");
  value = text == "true";
}

}  // namespace

std::string Config::task_name() const {
  if (!needs_data()) return task + "-" + std::to_string(length);
  if (task == "image") return data;
  return (permuted ? "permuted-" : "pixel-") + data;
}

std::string Config::method_name() const {
  auto name = optim;
  if (optimizer_facts(optim).is_retraction() && momentum.value_or(0) > 0) name += "+m";
  if (has_penalty()) name += "+" + penalty;
  if (is_parametrized()) name += "+" + weights;
  if (normalization != "batch") name += "+" + normalization;
  return name;
}

std::string to_toml(const Config& config) {
  std::string text;
  Config::visit(config, [&](const char* name, const auto& value, const char*) {
    const auto written = write(value);
    if (!written.empty()) text += fmt::format("{} = {}\n", name, written);
  });
  return text;
}

Config config_from_entries(const std::vector<ConfigEntry>& entries, const std::string& source) {
  Config config;
  const auto where = base::printable(source);
  for (size_t i = 0; i < entries.size(); ++i) {
    const auto& key = entries[i].key;
    // No option is a text longer than the path of a file.
    constexpr size_t kLongest = 4096;
    if (const auto size = entries[i].text.size(); size > kLongest) {
      throw std::invalid_argument(
          fmt::format("{}: line {}: the value of '{}' has {} bytes; no option has more than {}", where,
                      entries[i].line, base::excerpt(key), size, kLongest));
    }
    auto values = entries[i].values();
    // A list may also be given as one line per value.
    for (; i + 1 < entries.size() && entries[i + 1].key == key; ++i) {
      const auto more = entries[i + 1].values();
      values.insert(values.end(), more.begin(), more.end());
    }
    bool known = false;
    try {
      Config::visit(config, [&](const char* name, auto& value, const char*) {
        if (key != name) return;
        known = true;
        read(key, values, value);
      });
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("{}: {}", where, error.what()));
    }
    if (!known) {
      throw std::invalid_argument(
          fmt::format("{}: no option is called '{}' (see stiefel train --help)", where, base::excerpt(key)));
    }
  }
  return config;
}

Config config_from_toml(const std::string& text, const std::string& source) {
  const auto parsed = parse_config_entries(text);
  if (parsed.section_line) {
    throw std::invalid_argument(
        fmt::format("{}: line {}: sections are not supported; a config has `name = value` lines only",
                    base::printable(source), *parsed.section_line));
  }
  return config_from_entries(parsed.entries, source);
}

std::vector<std::string> differences(const Config& a, const Config& b) {
  std::vector<std::string> first;
  std::vector<std::string> names;
  Config::visit(a, [&](const char*, const auto& value, const char*) { first.push_back(write(value)); });
  size_t i = 0;
  Config::visit(b, [&](const char* name, const auto& value, const char*) {
    if (write(value) != first[i++]) names.emplace_back(name);
  });
  return names;
}

void copy_result_neutral_options(Config& config, const Config& other) {
  config.threads = other.threads;
  config.data_dir = other.data_dir;
  config.tensorboard = other.tensorboard;
  config.checkpoint_every = other.checkpoint_every;
  config.graph = other.graph;
  config.overlap_steps = other.overlap_steps;
}

}  // namespace stiefel::record
