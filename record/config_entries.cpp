#include "config_entries.h"

#include <sstream>

namespace stiefel::record {

namespace {

constexpr const char* kBlanks = " \t\r";

std::string trim(const std::string& text) {
  const auto first = text.find_first_not_of(kBlanks);
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool is_quote(char c) { return c == '"' || c == '\''; }

std::string without_quotes(const std::string& text) {
  const bool quoted =
      text.size() >= 2 && is_quote(text.front()) && text.find(text.front(), 1) == text.size() - 1;
  return quoted ? text.substr(1, text.size() - 2) : text;
}

/// Tells which characters of a line are inside quotes. A quote opens only where a word begins: the apostrophe
/// of a folder's name is a plain character.
class QuoteTracker {
 public:
  /// Whether the next character is quoted, or is a quote itself.
  bool next(char c) {
    if (open_ != 0) {
      if (c == open_) open_ = 0;
      return true;
    }
    const bool opens = is_quote(c) && at_word_start_;
    if (opens) open_ = c;
    at_word_start_ = std::string(" \t=,[").find(c) != std::string::npos;
    return opens;
  }

 private:
  char open_ = 0;
  bool at_word_start_ = true;
};

std::string without_comment(const std::string& line) {
  QuoteTracker quotes;
  for (size_t i = 0; i < line.size(); ++i) {
    if (!quotes.next(line[i]) && line[i] == '#') return line.substr(0, i);
  }
  return line;
}

bool has_unquoted_comma(const std::string& text) {
  QuoteTracker quotes;
  for (const char c : text) {
    if (!quotes.next(c) && c == ',') return true;
  }
  return false;
}

}  // namespace

std::string ConfigEntry::value() const { return without_quotes(text); }

std::vector<std::string> ConfigEntry::values() const {
  const bool bracketed = !text.empty() && text.front() == '[';
  const auto end = bracketed && text.back() == ']' ? text.size() - 1 : text.size();
  const auto list = bracketed ? text.substr(1, end - 1) : text;
  const std::string separators = bracketed || has_unquoted_comma(list) ? "," : kBlanks;
  std::vector<std::string> values;
  std::string word;
  const auto finish = [&] {
    if (const auto trimmed = trim(word); !trimmed.empty()) values.push_back(without_quotes(trimmed));
    word.clear();
  };
  QuoteTracker quotes;
  for (const char c : list) {
    if (!quotes.next(c) && separators.find(c) != std::string::npos) {
      finish();
    } else {
      word += c;
    }
  }
  finish();
  return values;
}

ConfigEntries parse_config_entries(const std::string& text) {
  ConfigEntries result;
  std::string section;
  std::istringstream in(text);
  size_t number = 0;
  std::string line;
  const auto next_line = [&] {
    if (!std::getline(in, line)) return false;
    ++number;
    line = trim(without_comment(line));
    return true;
  };
  while (next_line()) {
    if (line.empty() || line.front() == ';') continue;
    const auto equals = line.find('=');
    if (line.front() == '[' && line.back() == ']' && equals == std::string::npos) {
      section = trim(line.substr(1, line.size() - 2));
      if (section == "default") {  // CLI11's name for no section
        section.clear();
      } else if (!result.section_line) {
        result.section_line = number;
      }
      continue;
    }
    const auto key = without_quotes(trim(line.substr(0, equals)));
    ConfigEntry entry{section.empty() ? key : section + "." + key, "true", number};
    if (equals != std::string::npos) entry.text = trim(line.substr(equals + 1));
    if (!entry.text.empty() && entry.text.front() == '[') {
      while (entry.text.back() != ']' && next_line()) entry.text += line;
    }
    result.entries.push_back(std::move(entry));
  }
  return result;
}

}  // namespace stiefel::record
