#include "record/config.h"

#include <gtest/gtest.h>

#include <functional>

#include "record/config_entries.h"

// Configs: the lines of their files, and what they mean.

namespace config_test {

using namespace stiefel::record;
using Values = std::vector<std::string>;

/// Gives every option a value that is not its default.
struct Disturb {
  void operator()(const char*, std::string& value, const char*) const { value += "x"; }
  void operator()(const char*, int64_t& value, const char*) const { value += 3; }
  void operator()(const char*, double& value, const char*) const { value = value / 3 + 0.1; }
  void operator()(const char*, bool& value, const char*) const { value = !value; }
  void operator()(const char*, std::optional<double>& value, const char*) const { value = 1.0 / 3; }
  void operator()(const char*, std::optional<int64_t>& value, const char*) const { value = 17; }
  void operator()(const char*, std::vector<double>& value, const char*) const { value = {1, 2.5, 1.0 / 7}; }
};

TEST(Config, EveryOptionSurvivesTheRoundTrip) {
  Config config;
  Config::visit(config, Disturb{});
  EXPECT_GT(differences(config, Config{}).size(), 25u) << "every option was changed";
  size_t options = 0;
  Config::visit(config, [&](const char*, auto&, const char*) { ++options; });
  EXPECT_EQ(differences(config, Config{}).size(), options);
  EXPECT_EQ(differences(config_from_toml(to_toml(config), "test"), config), std::vector<std::string>{});
  EXPECT_EQ(differences(config_from_toml(to_toml(Config{}), "test"), Config{}), std::vector<std::string>{});
}

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Config, BadFilesNameTheKey) {
  const auto read = [](const std::string& text) {
    return error_of([&] { config_from_toml(text, "my.toml"); });
  };
  EXPECT_NE(read("epoch = 3\n").find("my.toml: no option is called 'epoch'"), std::string::npos);
  std::string nested = "seed = 1\n[a";
  for (int i = 0; i < 2000; ++i) nested += ".a";
  EXPECT_NE(read(nested + "]\n").find("my.toml: line 2: sections are not supported"), std::string::npos);
  EXPECT_NE(read("epochs = many\n").find("my.toml: epochs: 'many' is not a whole number"), std::string::npos);
  EXPECT_NE(read("seed = 9223372036854775808\n").find("my.toml: seed: 9223372036854775808 is too large"),
            std::string::npos);
  EXPECT_NE(read("momentum = \"0.9x\"\n").find("my.toml: momentum: '0.9x' is not a number"),
            std::string::npos);
  EXPECT_NE(read("momentum = [0.9, 0.8]\n").find("my.toml: momentum = 0.9, 0.8: expected one value"),
            std::string::npos);
  EXPECT_NE(read("[train]\nepochs = 3\n").find("my.toml: line 1: sections"), std::string::npos);
  EXPECT_NE(read("exact = 3\n").find("true or false"), std::string::npos);
}

TEST(Config, FilesOfPeopleAreRead) {
  const auto config = config_from_toml(
      "# a run\n[default]\n\"epochs\" = 7  # few\ndata-dir = '/data, mine'\npermuted\n; not this: seed = 9\n"
      "drops = [10,\n  20,  # the second\n  30]\nmodel = wrn-16-4\npenalty-schedule = \"20:1e-3,50:1e-4\"\n",
      "test");
  Config expected;
  expected.epochs = 7;
  expected.data_dir = "/data, mine";
  expected.permuted = true;
  expected.drops = {10, 20, 30};
  expected.model = "wrn-16-4";
  expected.penalty_schedule = "20:1e-3,50:1e-4";
  EXPECT_EQ(differences(config, expected), Values{});
  for (const char* drops : {"drops = 10, 20, 30\n", "drops = 10 20 30\n", "drops = 10\ndrops = [20, 30]\n"}) {
    EXPECT_EQ(config_from_toml(drops, "test").drops, (std::vector<double>{10, 20, 30})) << drops;
  }
  EXPECT_TRUE(config_from_toml("drops = []\n", "test").drops.empty());
  EXPECT_EQ(config_from_toml("epochs = 1\nseed = 2\nepochs = 3\n", "test").epochs, 3) << "the later one";
}

TEST(Config, ResultNeutralOptionsAreCopiedAndNoOthers) {
  Config from;
  Config::visit(from, Disturb{});
  Config config;
  copy_result_neutral_options(config, from);
  EXPECT_EQ(differences(config, Config{}),
            (Values{"data-dir", "graph", "overlap-steps", "threads", "tensorboard", "checkpoint-every"}));
  copy_result_neutral_options(from, Config{});
  EXPECT_EQ(differences(from, config).size(), differences(from, Config{}).size() + 6);
}

TEST(ConfigEntries, KeysOfAnyVersionAreReadInTheirOrder) {
  const auto parsed = parse_config_entries(
      "# a comment\n; another\n\nname=\"a # b\"\nlist=[1, 2]  # a trailing one\n[train]\n rate = 0.1 "
      "\r\n[default]\nx=''\n");
  EXPECT_EQ(parsed.section_line, 6u);
  const auto& entries = parsed.entries;
  ASSERT_EQ(entries.size(), 4u);
  const std::vector<std::pair<std::string, std::string>> expected{
      {"name", "a # b"}, {"list", "[1, 2]"}, {"train.rate", "0.1"}, {"x", ""}};
  for (size_t i = 0; i < entries.size(); ++i) {
    EXPECT_EQ(entries[i].key, expected[i].first);
    EXPECT_EQ(entries[i].value(), expected[i].second);
  }
  EXPECT_EQ(entries[0].line, 4u);
  EXPECT_EQ(entries[2].line, 7u);
}

TEST(ConfigEntries, ValuesOfLists) {
  const auto values = [](const std::string& text) {
    return parse_config_entries("key = " + text).entries.at(0).values();
  };
  EXPECT_EQ(values("[1, 2]"), (Values{"1", "2"}));
  EXPECT_EQ(values("['a, b', \"c\"]"), (Values{"a, b", "c"}));
  EXPECT_EQ(values("\"a, b\""), Values{"a, b"});
  EXPECT_EQ(values("'two words'"), Values{"two words"});
  EXPECT_EQ(values("/home/o'neill # his"), Values{"/home/o'neill"});
  EXPECT_EQ(values("''"), Values{""});
  EXPECT_EQ(values("[]"), Values{});
  EXPECT_EQ(values("[1, 2"), (Values{"1", "2"}));
  EXPECT_EQ(values("["), Values{});
  EXPECT_EQ(values(""), Values{});
}

}  // namespace config_test
