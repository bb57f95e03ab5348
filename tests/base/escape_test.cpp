#include "base/escape.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "base/utf8.h"

// Text made safe for HTML, scripts and styles.

namespace escape_test {

using namespace stiefel::base;

const std::string kReplacement = "\xEF\xBF\xBD";

/// What a browser reads.
std::string unescaped(const std::string& html) {
  static const std::map<std::string, char> entities{
      {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}};
  std::string text;
  for (size_t at = 0; at < html.size(); ++at) {
    if (html[at] != '&') {
      text += html[at];
      continue;
    }
    const auto end = html.find(';', at);
    text += entities.at(html.substr(at, end - at + 1));
    at = end;
  }
  return text;
}

TEST(Utf8, EveryCodePointHasItsSize) {
  EXPECT_EQ(character_size("a", 0), 1u);
  EXPECT_EQ(character_size("ü", 0), 2u);
  EXPECT_EQ(character_size("ü", 1), 0u) << "within a character";
  EXPECT_EQ(character_size("‖", 0), 3u);
  EXPECT_EQ(character_size("🙂", 0), 4u);
  for (const char* broken : {"\x80", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                             "\xff", "\xe2\x82", "\xf0\x82\x82\xac"}) {
    EXPECT_EQ(character_size(broken, 0), 0u) << broken;
  }
}

TEST(ValidText, ReplacesWhatIsNoTextAndKeepsTheRest) {
  EXPECT_EQ(valid_text("a\xff"
                       "b"),
            "a" + kReplacement + "b");
  EXPECT_EQ(valid_text("\xe2\x82"), kReplacement + kReplacement);
  EXPECT_EQ(valid_text(std::string("a\0\x1b\tb", 5)), "a" + kReplacement + kReplacement + "\tb");
  const std::string good = "ü€😀\n";
  EXPECT_EQ(valid_text(good), good);
  // Whatever bytes come in, what goes out is valid, and stays as it is.
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  const auto once = valid_text(bytes + bytes);
  for (size_t at = 0; at < once.size(); at += character_size(once, at))
    ASSERT_GT(character_size(once, at), 0u);
  EXPECT_EQ(valid_text(once), once);
}

TEST(EscapeHtml, IsReadBackByABrowser) {
  for (const std::string text :
       {"", "plain", "a & b", "<b class=\"x\" id='y'>", "&amp;", "‖x‖ > 1", "</script><!--"}) {
    const auto html = escape_html(text);
    EXPECT_EQ(unescaped(html), text);
    EXPECT_EQ(html.find_first_of("<>\"'"), std::string::npos) << html;
  }
}

TEST(EscapeScript, NothingEndsTheElement) {
  EXPECT_EQ(escape_script("a='</script>';//# sourceMappingURL=x.map\nb"), "a='<\\/script>';\nb");
  EXPECT_EQ(escape_script("a//# sourceMappingURL=x.map"), "a");
  EXPECT_EQ(escape_style("a{}/*# sourceMappingURL=x.map */b"), "a{}/**/b");
  EXPECT_EQ(escape_style("a</style>"), "a<\\/style>");
}

TEST(EscapeJson, MeansTheSame) {
  const nlohmann::json value{{"</script>", "<!-- & -->"}, {"n", 1.5}};
  const auto safe = escape_json_for_script(value.dump());
  EXPECT_EQ(safe.find_first_of("<>&"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(safe), value);
}

TEST(DumpJson, IsReadBackWhateverBytesItHolds) {
  const nlohmann::json value{{"a", {1, 2}}, {"name", "ü"}};
  const auto text = dump_json(value);
  EXPECT_EQ(text.back(), '\n');
  EXPECT_EQ(parse_json(text), value);
  EXPECT_EQ(parse_json(dump_json(nlohmann::json{{"name", "\xff"}}))["name"], kReplacement);
}

}  // namespace escape_test
