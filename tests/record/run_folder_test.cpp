#include "record/run_folder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>

#include "base/files.h"
#include "record/run_facts.h"
#include "tests/scratch.h"

// What a run leaves in its folder, written and read back. tests/report/report_test.cpp has damaged folders.

namespace run_folder_test {

namespace base = stiefel::base;
using namespace stiefel::record;

class RunFolderFiles : public scratch::Test {
 protected:
  std::vector<EpochMetrics> read_lines(const std::string& lines) {
    base::write_file(folder_ / "metrics.jsonl", lines);
    warnings_.clear();
    return read_metrics(folder_, warnings_);
  }
  std::string error_of_lines(const std::string& lines) {
    try {
      read_lines(lines);
    } catch (const std::runtime_error& error) {
      return error.what();
    }
    return "";
  }
  std::vector<std::string> warnings_;
};

/// A different value for every metric, 1, 2, …; those that may be missing are there in every second epoch.
std::vector<EpochMetrics> some_epochs() {
  std::vector<EpochMetrics> epochs;
  for (int64_t e = 1; e <= 3; ++e) {
    nlohmann::json json;
    double value = static_cast<double>(e);
    for (const auto& column : metric_columns()) json[column.name] = value += 0.125;
    json["epoch"] = e;
    json["step"] = 390 * e;
    json["skipped_steps"] = e;
    if (e % 2 == 1) {
      for (const auto* name : {"validation_error", "rate_manifold", "defect_max", "defect_mean"})
        json.erase(name);
    }
    epochs.push_back(json);
  }
  epochs[2].train_loss = std::numeric_limits<double>::infinity();
  epochs[1].defect_max = NAN;  // the weights have diverged, which is not the same as having none
  return epochs;
}

TEST_F(RunFolderFiles, MetricsSurviveTheRoundTrip) {
  const auto written = some_epochs();
  write_metrics(folder_, written);
  const auto read = read_metrics(folder_, warnings_);
  ASSERT_EQ(read.size(), written.size());
  EXPECT_TRUE(warnings_.empty());
  for (size_t i = 0; i < read.size(); ++i) {
    for (const auto& column : metric_columns()) {
      const double expected = column.value(written[i]);
      if (std::isfinite(expected)) {
        EXPECT_EQ(column.value(read[i]), expected) << column.name;
      } else {
        EXPECT_TRUE(std::isnan(column.value(read[i]))) << column.name;
      }
    }
    EXPECT_EQ(read[i].defect_max.has_value(), written[i].defect_max.has_value());
  }
  const auto table = base::read_file(folder_ / "metrics.csv");
  std::string header;
  for (const auto& column : metric_columns())
    header += (header.empty() ? "" : ",") + std::string(column.name);
  EXPECT_EQ(table.substr(0, table.find('\n')), header);
}

TEST_F(RunFolderFiles, DamagedMetricsAreNamedWithTheirLineAndARemedy) {
  EXPECT_NE(
      error_of_lines("{\"epoch\":1}\n{\"epoch\":2,\"seconds\":\"x\"}\n").find("line 2: \"seconds\" must"),
      std::string::npos);
  EXPECT_NE(error_of_lines("{\"epoch\":1e300}\n").find("line 1: \"epoch\" is 1e+300, too large; mend"),
            std::string::npos);
  EXPECT_EQ(read_lines("{\"epoch\":1}\n{\"ep").size(), 1u);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(RunFolderFiles, TheBestEpochIsTheFirstWithTheLeastErrorThatDecides) {
  std::vector<EpochMetrics> epochs(4);
  const double errors[] = {NAN, 7, 5, 5};
  for (size_t i = 0; i < epochs.size(); ++i) {
    epochs[i].epoch = static_cast<int64_t>(i + 1);
    epochs[i].test_error = errors[i];
  }
  EXPECT_EQ(best_epoch(epochs).epoch, 3);
  for (auto& epoch : epochs) epoch.validation_error = 10 - epoch.test_error;
  EXPECT_EQ(best_epoch(epochs).epoch, 2);
  EXPECT_FALSE(has_stalled(9, 3, 0)) << "no patience was given";
  EXPECT_FALSE(has_stalled(8, 3, 6));
  EXPECT_TRUE(has_stalled(9, 3, 6));
}

TEST_F(RunFolderFiles, FactsTellThePartsOfAContinuedRun) {
  EXPECT_EQ(status_of(folder_), "");
  EXPECT_TRUE(parts_so_far(folder_).empty());
  write_run_facts(folder_, {{"status", "interrupted"}, {"commit", "a1"}, {"seconds", 7}, {"device", "cpu"}});
  EXPECT_EQ(status_of(folder_), "interrupted");
  auto facts = read_run_facts(folder_);
  facts["earlier"] = parts_so_far(folder_);
  EXPECT_EQ(facts["earlier"], nlohmann::json::parse(R"([{"commit": "a1", "device": "cpu"}])"));
  facts["commit"] = "b2";
  write_run_facts(folder_, facts);
  EXPECT_EQ(commits_of(read_run_facts(folder_)), (std::vector<std::string>{"a1", "b2"}));
  EXPECT_EQ(parts_so_far(folder_).size(), 2u);
  base::write_file(folder_ / "run.json", "{\n\"status\": oops}");
  EXPECT_EQ(status_of(folder_), "");
  EXPECT_TRUE(parts_so_far(folder_).empty());
  EXPECT_THROW(read_run_facts(folder_), std::runtime_error);
}

TEST_F(RunFolderFiles, AFolderIsReadWithKeysOfAnyVersion) {
  write_run_facts(folder_, {{"status", "running"}, {"flavor", "new"}});
  base::write_file(folder_ / "config.toml", "epochs = 2\nnew-knob = \"x\"\n");
  write_metrics(folder_, some_epochs());
  const auto run = read_run(folder_);
  EXPECT_EQ(run.facts["flavor"], "new");
  ASSERT_EQ(run.settings.size(), 2u);
  EXPECT_EQ(run.settings[1].value(), "x");
  EXPECT_EQ(run.epochs.size(), 3u);
  EXPECT_TRUE(run.warnings.empty());
}

TEST_F(RunFolderFiles, AFolderIsUnusedWithNothingButATemporaryConfig) {
  EXPECT_TRUE(is_unused(folder_));
  std::ofstream(folder_ / "config.toml.tmp") << "task = ";
  EXPECT_TRUE(is_unused(folder_));
  std::ofstream(folder_ / "notes.txt") << "mine";
  EXPECT_FALSE(is_unused(folder_));
}

}  // namespace run_folder_test
