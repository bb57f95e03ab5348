#include "report/settings.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "report/effect.h"

namespace stiefel::report {

namespace {

std::string trim(const std::string& text) {
  const auto* const blanks = " \t\r";
  const auto first = text.find_first_not_of(blanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The line up to a comment; a # inside quotes is not one.
std::string without_comment(const std::string& line) {
  char quote = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '#') {
      return line.substr(0, i);
    }
  }
  return line;
}

std::string unquoted(const std::string& value) {
  const bool quoted = value.size() >= 2 && (value.front() == '"' || value.front() == '\'') &&
                      value.find(value.front(), 1) == value.size() - 1;
  return quoted ? value.substr(1, value.size() - 2) : value;
}

}  // namespace

std::vector<Pair> parse_settings(const std::string& text) {
  std::vector<Pair> settings;
  std::string section;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    line = trim(without_comment(line));
    if (line.empty() || line.front() == ';') continue;
    const auto equals = line.find('=');
    if (line.front() == '[' && line.back() == ']' && equals == std::string::npos) {
      section = trim(line.substr(1, line.size() - 2)) + ".";
      if (section == "default.") section.clear();  // CLI11's name for no section
    } else if (equals != std::string::npos) {
      settings.emplace_back(section + trim(line.substr(0, equals)), unquoted(trim(line.substr(equals + 1))));
    }
  }
  return settings;
}

bool Setting::differs() const {
  const auto first = std::find(idle.begin(), idle.end(), false) - idle.begin();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto other = static_cast<size_t>(first);
    if (!idle[i] && (present[i] != present[other] || values[i] != values[other])) return true;
  }
  return false;
}

bool Setting::is_idle() const { return std::find(idle.begin(), idle.end(), false) == idle.end(); }

std::string Setting::usual() const {
  std::vector<std::string> counted;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!idle[i]) counted.push_back(values[i]);
  }
  const auto count = [&](const std::string& value) {
    return std::count(counted.begin(), counted.end(), value);
  };
  const auto usual = std::max_element(counted.begin(), counted.end(),
                                      [&](const auto& a, const auto& b) { return count(a) < count(b); });
  return usual == counted.end() ? "" : *usual;
}

std::vector<Setting> gather_settings(const std::vector<RunFolder>& runs) {
  std::vector<Setting> all;
  std::map<std::string, size_t> place;
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const auto& [key, value] : runs[r].settings) {
      const auto [found, fresh] = place.emplace(key, all.size());
      const std::vector<bool> no(runs.size());
      if (fresh) all.push_back({key, std::vector<std::string>(runs.size()), no, no});
      all[found->second].values[r] = value;
      all[found->second].present[r] = true;
      all[found->second].idle[r] = !has_effect(key, runs[r]);
    }
  }
  return all;
}

}  // namespace stiefel::report
