#include "record/kept_run.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>

#include "base/files.h"
#include "record/config.h"
#include "record/damaged_run.h"
#include "record/run_facts.h"
#include "tests/scratch.h"

// A run kept as one file says what its folder says, up to the digits that mean something.

namespace kept_run_test {

namespace base = stiefel::base;
namespace fs = std::filesystem;
using namespace stiefel::record;
using nlohmann::json;

constexpr int kEpochs = 200;

/// A run of 200 epochs with numbers of 17 digits, and a rate that drops twice.
RunFolder some_run() {
  RunFolder run;
  run.facts = {{"name", "elsewhere"},
               {"status", "finished"},
               {"seed", 3},
               {"seconds", 889.54489689400052},
               {"version", "0.1.0"},
               {"hardware", {{"cpu", "a \"processor\""}, {"cores", 16}}},
               {"versions", {{"stiefel", "0.1.0"}, {"libtorch", "9.9"}}}};
  Config config;
  config.data_dir = "/somewhere";
  config.drops = {60, 120.5};
  config.lr = 0.1;
  config.epochs = kEpochs;
  config.penalty_schedule = "20:1e-3,50:1e-4";
  run.settings = parse_config_entries(to_toml(config) + "new-knob = 007\n").entries;
  double seconds = 0;
  for (int i = 1; i <= kEpochs; ++i) {
    EpochMetrics epoch;
    epoch.epoch = i;
    epoch.step = 390 * i;
    epoch.train_loss = 2.3025850929940457 / i;
    epoch.train_error = 100.0 / 3 / i;
    epoch.test_loss = 12345.678901 / i;
    epoch.test_error = 87.65 - 0.25 * i;
    epoch.rate_manifold = i > 120 ? 0.2 * 0.2 * 0.2 : i > 60 ? 0.2 * 0.2 : 0.2;
    epoch.rate_euclidean = 0.1;
    epoch.epoch_seconds = 4 + std::sin(i);
    epoch.seconds = seconds += epoch.epoch_seconds;
    epoch.images_per_second = 49920 / epoch.epoch_seconds;
    epoch.defect_max = 3.1234567e-6 / i;
    epoch.defect_mean = NAN;
    epoch.skipped_steps = i == 7 ? 2 : 0;
    run.epochs.push_back(epoch);
  }
  run.epochs[4].train_loss = NAN;
  run.epochs[0].defect_mean = 1e-6;
  return run;
}

RunFolder read_text(const std::string& text) { return parse_kept_run("runs/a.b.json", text); }

/// The text with one part of it replaced by another.
std::string changed(std::string text, const std::string& part, const std::string& other) {
  const auto at = text.find(part);
  EXPECT_NE(at, std::string::npos) << part;
  return text.replace(at, part.size(), other);
}

std::string error_of(const std::string& text) {
  try {
    read_text(text);
  } catch (const DamagedRun& error) {
    return error.what();
  }
  return "no error";
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST(KeptRun, HasEveryMetricUpToRounding) {
  const auto run = some_run();
  const auto read = read_text(kept_run_text(run));
  // Half a unit of the last digit that is kept, relative to the number or absolute.
  const std::map<std::string, std::pair<double, double>> tolerances{
      {"train_loss", {5e-5, 0}},    {"train_error", {0, 0.00501}},    {"test_loss", {5e-5, 0}},
      {"test_error", {0, 0.00501}}, {"rate_manifold", {1e-15, 0}},    {"seconds", {5e-6, 0}},
      {"epoch_seconds", {5e-6, 0}}, {"images_per_second", {5e-6, 0}}, {"defect_max", {5e-4, 0}},
      {"defect_mean", {5e-4, 0}}};
  ASSERT_EQ(read.epochs.size(), run.epochs.size());
  for (const auto& column : metric_columns()) {
    const auto found = tolerances.find(column.name);
    const auto [relative, absolute] = found == tolerances.end() ? std::pair(0.0, 0.0) : found->second;
    for (size_t i = 0; i < run.epochs.size(); ++i) {
      const double expected = column.value(run.epochs[i]);
      const double value = column.value(read.epochs[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << column.name << " of epoch " << i + 1 << ": " << value;
      } else {
        EXPECT_LE(std::abs(value - expected), relative * std::abs(expected) + absolute)
            << column.name << " of epoch " << i + 1;
      }
    }
  }
  EXPECT_FALSE(read.epochs[0].validation_error.has_value());
  EXPECT_EQ(read.epochs[130].rate_manifold, 0.008) << "without the noise of 0.2³";
}

TEST(KeptRun, HasEveryOptionAndFactButTheMachinesFolder) {
  const auto run = some_run();
  const auto read = read_text(kept_run_text(run));
  auto expected = run.settings;
  expected.erase(std::find_if(expected.begin(), expected.end(),
                              [](const ConfigEntry& entry) { return entry.key == "data-dir"; }));
  ASSERT_EQ(read.settings.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(read.settings[i].key, expected[i].key);
    EXPECT_EQ(read.settings[i].values(), expected[i].values()) << expected[i].key;
  }
  auto facts = run.facts;
  facts["name"] = "a.b";  // the file's
  facts["seconds"] = 889.545;
  EXPECT_EQ(read.facts, facts);
  EXPECT_EQ(read.name, "a.b");
}

TEST(KeptRun, IsSmallAndLeavesOutWhatFollows) {
  const auto text = kept_run_text(some_run());
  EXPECT_LT(text.size(), 11'000u);
  const auto root = json::parse(text);
  EXPECT_EQ(root["epochs"], kEpochs);
  EXPECT_EQ(root["steps_per_epoch"], 390);
  EXPECT_EQ(root["images_per_epoch"], 49920);
  for (const auto* name : {"epoch", "step", "seconds", "images_per_second", "validation_error"})
    EXPECT_FALSE(root["metrics"].contains(name)) << name;
  EXPECT_EQ(root["metrics"]["rate_manifold"], json::parse(R"({"1": 0.2, "61": 0.04, "121": 0.008})"));
  EXPECT_EQ(root["metrics"]["skipped_steps"], json::parse(R"({"1": 0, "7": 2, "8": 0})"));
  EXPECT_TRUE(root["metrics"]["train_loss"][4].is_null());
}

TEST(KeptRun, KeepsWhatDoesNotFollow) {
  auto run = some_run();
  run.epochs.resize(5);
  run.epochs.erase(run.epochs.begin());
  run.epochs[1].step += 1;
  run.epochs[2].images_per_second *= 1.5;
  run.epochs[3].seconds += 100;  // of a part whose epochs are not here
  const auto root = json::parse(kept_run_text(run));
  EXPECT_EQ(root["epochs"], json::parse("[2, 3, 4, 5]"));
  EXPECT_FALSE(root.contains("steps_per_epoch"));
  EXPECT_FALSE(root.contains("images_per_epoch"));
  const auto read = read_text(root.dump());
  for (size_t i = 0; i < run.epochs.size(); ++i) {
    EXPECT_EQ(read.epochs[i].epoch, run.epochs[i].epoch);
    EXPECT_EQ(read.epochs[i].step, run.epochs[i].step);
    EXPECT_NEAR(read.epochs[i].images_per_second / run.epochs[i].images_per_second, 1, 5e-6);
    EXPECT_NEAR(read.epochs[i].seconds / run.epochs[i].seconds, 1, 5e-6);
  }
}

TEST(KeptRun, StaysTheSameWhenItIsWrittenAgain) {
  auto run = some_run();
  const auto text = kept_run_text(run);
  EXPECT_EQ(kept_run_text(read_text(text)), text);
  run.epochs.clear();  // a measurement
  run.facts["unitariness"] = {{"mean", 3.4434559534247277e-4}, {"rounds", nullptr}, {"closed", true}};
  const auto measured = kept_run_text(run);
  EXPECT_EQ(read_text(measured).facts["unitariness"]["mean"], 3.443456e-4);
  EXPECT_TRUE(read_text(measured).epochs.empty());
  EXPECT_EQ(kept_run_text(read_text(measured)), measured);
}

TEST(KeptRun, DamageIsNamed) {
  const auto text = kept_run_text(some_run());
  ASSERT_EQ(error_of(text), "no error");
  const auto broken = error_of(text.substr(0, text.size() / 2));
  EXPECT_SAYS(broken, "runs/a.b.json: line ");
  EXPECT_SAYS(broken, "broken JSON; restore the file");
  EXPECT_SAYS(error_of("[1]"), "a kept run is a JSON object with \"stiefel_run\"");
  EXPECT_SAYS(error_of(changed(text, "\"stiefel_run\": 1", "\"stiefel_run\": 2")),
              "is 2; this version reads 1");
  EXPECT_SAYS(error_of(changed(text, "\"facts\"", "\"fact\"")), "must have an object \"facts\"");
  EXPECT_SAYS(error_of(changed(text, "\"config\"", "\"con\"")), "must have an object \"config\"");
  EXPECT_SAYS(error_of(changed(text, "\"epochs\": 200,\n\"st", "\"epochs\": 199,\n\"st")),
              "\"train_loss\" has 200 numbers for 199 epochs");
  EXPECT_SAYS(error_of(changed(text, "\"epochs\": 200,\n\"st", "\"epochs\": 1e9,\n\"st")),
              "\"epochs\" is 1000000000.0, not a whole number from 1 to 100000");
  EXPECT_SAYS(error_of(changed(text, "\"epochs\": 200,\n\"st", "\"epochs\": [2,2],\n\"st")),
              "epoch 2 follows epoch 2");
  EXPECT_SAYS(error_of(changed(text, "[2.3026,", "[\"x\",")), "\"train_loss\" must hold numbers and null");
  EXPECT_SAYS(error_of(changed(text, "{\"1\":0.1}", "{\"2\":0.1}")), "does not say what it is in epoch 1");
  EXPECT_SAYS(error_of(changed(text, "{\"1\":0.1}", "{\"one\":0.1}")), "has the key one, which is no epoch");
  EXPECT_SAYS(error_of(changed(text, "\"lr\": 0.1", "\"lr\": {}")), "the config's \"lr\" is neither");
  EXPECT_SAYS(error_of(changed(text, "\"steps_per_epoch\": 390", "\"steps_per_epoch\": 1e14")), "too large");
}

class KeptRunFile : public scratch::Test {};

TEST_F(KeptRunFile, IsReadWhereARunsFolderIs) {
  const auto run = some_run();
  const auto folder = folder_ / "one";
  fs::create_directories(folder);
  write_run_facts(folder, run.facts);
  write_metrics(folder, run.epochs);
  std::string config;
  for (const auto& entry : run.settings) config += entry.key + " = " + entry.text + "\n";
  base::write_file(folder / "config.toml", config);
  const auto file = folder_ / "one.json";
  base::write_file(file, kept_run_text(read_run_or_kept(folder)));

  const auto kept = read_run_or_kept(file);
  EXPECT_EQ(kept.name, read_run_or_kept(folder / "").name);
  EXPECT_EQ(kept.folder, file);
  EXPECT_EQ(kept.epochs.size(), run.epochs.size());
  EXPECT_TRUE(is_kept_run(file));
  EXPECT_FALSE(is_kept_run(folder));
  EXPECT_FALSE(is_kept_run(folder / "run.json")) << "facts alone";
  EXPECT_FALSE(is_kept_run(folder_ / "none.json"));
}

}  // namespace kept_run_test
