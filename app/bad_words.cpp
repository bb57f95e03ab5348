#include "bad_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "base/printable.h"

namespace stiefel::app {

namespace {

/// Letters to insert, drop or change to make one word of the other (Levenshtein).
size_t distance(const std::string& a, const std::string& b) {
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

/// The sub-command that was reached, and the words that lead to it.
struct Reached {
  const CLI::App* command;
  std::string path;
  size_t depth = 0;
};

Reached reached(const CLI::App& app) {
  Reached result{&app, app.get_name()};
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

/// The nearest name that a slip of the fingers could have made into this one, or none.
std::string meant(const std::string& word, const std::vector<std::string>& names) {
  std::string best;
  size_t least = (word.size() - 2) / 4 + 2;  // of four letters one may be wrong, of eight two
  for (const auto& name : names) {
    // A beginning is as good as one letter off.
    const auto off = name.rfind(word, 0) == 0 ? 1 : distance(word, name);
    if (off < least) {
      least = off;
      best = name;
    }
  }
  return best;
}

}  // namespace

std::string explain(const CLI::App& app, const CLI::ParseError& error,
                    const std::vector<std::string>& words) {
  const auto [command, path, depth] = reached(app);
  const auto all = fmt::format("(`{} --help` lists all)", path);
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
    const auto guess = meant(name, names);
    return fmt::format("`{}` has no option {}{} {}", path, base::printable(name),
                       guess.empty() ? "" : fmt::format("; did you mean {}?", guess), all);
  }
  return fmt::format("{} {}", base::printable(std::string(error.what())), all);
}

}  // namespace stiefel::app
