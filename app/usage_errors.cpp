#include "usage_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/printable.h"

namespace stiefel::app {

namespace {

/// The Levenshtein distance: how many letters have to be inserted, removed or changed to turn one word into
/// the other.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

/// The innermost sub-command of the line, and the words that lead to it.
struct ChosenCommand {
  const CLI::App* command;
  std::string path;
  size_t depth = 0;
};

ChosenCommand chosen_command(const CLI::App& app) {
  ChosenCommand result{&app, app.get_name()};
  for (auto chosen = app.get_subcommands(); !chosen.empty(); chosen = result.command->get_subcommands()) {
    result.command = chosen.front();
    result.path += " " + result.command->get_name();
    ++result.depth;
  }
  return result;
}

bool is_option(const std::string& word) { return word.rfind('-', 0) == 0; }

std::vector<std::string> long_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const auto* option : command.get_options()) {
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

/// The name nearest to a misspelled word; empty where none is near.
std::string nearest_name(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  size_t least = (word.size() - 2) / 4 + 2;  // one letter in four may be wrong
  for (const auto& name : names) {
    // A prefix counts as one letter off.
    const auto off = name.rfind(word, 0) == 0 ? 1 : edit_distance(word, name);
    if (off < least) {
      least = off;
      best = name;
    }
  }
  return best;
}

/// The parser's message. It leaves out the name of an option that the help does not list, which is put before
/// it.
std::string message_of(const CLI::App& command, const CLI::ParseError& error,
                       const std::vector<std::string>& words) {
  const std::string message = error.what();
  if (message.rfind(": ", 0) != 0) return message;
  for (const auto& word : words) {
    const auto name = word.substr(0, word.find('='));
    const auto* option = is_option(name) ? command.get_option_no_throw(name) : nullptr;
    if (option && option->get_group().empty()) return name + message;
  }
  return message;
}

}  // namespace

std::string explain_usage_error(const CLI::App& app, const CLI::ParseError& error,
                                const std::vector<std::string>& words) {
  const auto [command, path, depth] = chosen_command(app);
  const auto where = fmt::format("(`{} --help` lists all)", path);
  std::vector<std::string> below;
  for (const auto* one : command->get_subcommands([](const CLI::App*) { return true; })) {
    below.push_back(one->get_name());
  }
  if (!below.empty() && words.size() > depth && !is_option(words[depth])) {
    return fmt::format("`{}` has no sub-command '{}'; there are {}", path, base::printable(words[depth]),
                       fmt::join(below, ", "));
  }
  const auto names = long_names(*command);
  for (const auto& word : words) {
    if (word == "--") break;
    const auto name = word.substr(0, word.find('='));
    if (name.size() < 3 || name.rfind("--", 0) != 0) continue;
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const auto guess = nearest_name(name, names);
    return fmt::format("`{}` has no option {}{} {}", path, base::printable(name),
                       guess.empty() ? "" : fmt::format("; did you mean {}?", guess), where);
  }
  return fmt::format("{} {}", base::printable(message_of(*command, error, words)), where);
}

}  // namespace stiefel::app
