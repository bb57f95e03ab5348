#include "tests/limits.h"

#include "base/json.h"
#include "record/config.h"
#include "record/kept_run.h"
#include "record/metrics.h"
#include "record/run_facts.h"

// Files of a run that are far larger than any of ours: refused within a second and in a few times their size.

namespace record_limits_test {

using limits::refusal;
using namespace stiefel;

constexpr size_t kMillion = 1000000;

/// Whether a refusal names what is wrong.
void expect_part(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

TEST(RecordLimits, JsonNestedAHundredThousandDeep) {
  for (const std::string open : {"[", "{\"a\":"}) {
    std::string text;
    for (int i = 0; i < 100000; ++i) text += open;
    expect_part(refusal([&] { base::parse_json(text); }, 1, 16), "nested more than 100 deep");
    expect_part(refusal([&] { record::parse_run_facts("run.json", text); }, 1, 16),
                "nested more than 100 deep");
    expect_part(refusal([&] { record::parse_kept_run("kept.json", text); }, 1, 16),
                "nested more than 100 deep");
    std::vector<std::string> warnings;
    record::parse_metrics("metrics.jsonl", text, warnings);  // a line that was cut short while it was written
    EXPECT_EQ(warnings.size(), 1u);
    expect_part(refusal([&] { record::parse_metrics("metrics.jsonl", text + "\n", warnings); }, 1, 16),
                "nested more than 100 deep");
  }
}

TEST(RecordLimits, AKeptRunOfAHundredThousandEpochsOfWhichNothingIsSaid) {
  const std::string before = R"({"stiefel_run": 1, "facts": {}, "config": {}, "metrics": {}, "epochs": )";
  EXPECT_EQ(record::parse_kept_run("kept.json", before + "100000}").epochs.size(), 100000u);
  expect_part(refusal([&] { record::parse_kept_run("kept.json", before + "100001}"); }, 1, 16),
              "not a whole number from 1 to 100000");
  const std::string bytes(17 << 20, ' ');
  expect_part(refusal([&] { record::parse_kept_run("kept.json", bytes); }, 1, 16),
              "bytes are more than a kept run has");
}

TEST(RecordLimits, AnOptionOfAMillionCharacters) {
  const auto read = [](const std::string& line) {
    return refusal([&] { record::config_from_toml(line + "\n", "config.toml"); }, 1, 64);
  };
  const std::string digits(kMillion, '1'), letters(kMillion, 'x');
  expect_part(read("epochs = " + digits), "line 1: the value of 'epochs' has 1000000 bytes");
  expect_part(read("model = \"" + letters + "\""), "no option has more than 4096");
  expect_part(read("drops = [" + letters + "]"), "no option has more than 4096");
  expect_part(read(letters + " = 1"), "no option is called 'xxx");
}

TEST(RecordLimits, ANumberOrATextOfAMillionCharacters) {
  const std::string digits(kMillion, '1'), letters(kMillion, 'x');
  std::vector<std::string> warnings;
  const auto metrics = [&](const std::string& line) {
    return refusal([&] { record::parse_metrics("metrics.jsonl", line + "\n", warnings); }, 1, 64);
  };
  expect_part(metrics("{\"epoch\": \"" + letters + "\"}"), "must be a number or null");
  expect_part(metrics("{\"epoch\": " + digits + "}"), "is too large");
}

}  // namespace record_limits_test
