#include "json.h"

#include <algorithm>
#include <string_view>

#include "excerpt.h"

namespace stiefel::base {

using nlohmann::json;

namespace {

/// `byte` counts from 1, as the parser does.
[[noreturn]] void fail(const std::string& what, const std::string& text, size_t byte) {
  const auto before =
      std::string_view(text).substr(0, std::min(byte - std::min<size_t>(byte, 1), text.size()));
  const auto line = 1 + static_cast<size_t>(std::count(before.begin(), before.end(), '\n'));
  const auto newline = before.rfind('\n');
  throw JsonError(what, line, 1 + before.size() - (newline == std::string_view::npos ? 0 : newline + 1));
}

/// Our own files are nested less than ten deep.
void check_depth(const std::string& text) {
  constexpr int kMost = 100;
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMost) fail("nested more than " + std::to_string(kMost) + " deep", text, i + 1);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

/// Takes any JSON and keeps what is wrong with it: of a number that is too large json::parse does not say
/// where it is.
class Syntax : public nlohmann::json_sax<json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return true; }
  bool key(string_t&) override { return true; }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t position, const std::string& token, const json::exception& error) override {
    byte = position;
    constexpr int kNumberOverflow = 406;
    what = error.id == kNumberOverflow ? "the number " + excerpt(token) + " is too large" : "broken JSON";
    return false;
  }

  size_t byte = 0;
  std::string what;
};

}  // namespace

json parse_json(const std::string& text) {
  check_depth(text);
  Syntax syntax;
  if (!json::sax_parse(text, &syntax)) fail(syntax.what, text, syntax.byte);
  return json::parse(text);
}

}  // namespace stiefel::base
