#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <new>
#include <set>
#include <stdexcept>

#include "bench/dense_speedup.h"
#include "bench/formats.h"
#include "bench/noise_data.h"
#include "bench/sampled_run.h"
#include "bench/step_comparison.h"
#include "bench/training_comparison.h"
#include "record/method_facts.h"
#include "tests/data/data_support.h"

// The comparisons' contract: rows by name, ratios within rounds, and a method that fails is a row that says
// why while the others are measured.

namespace comparison_test {

using namespace stiefel::bench;

/// Steps that take some time, and fail after so many.
class FailingRun : public Run {
 public:
  explicit FailingRun(int64_t good_steps) : left_(good_steps) {}
  double step() override {
    if (left_-- == 0) throw std::bad_alloc();
    return 0.05;  // long enough for one per round
  }
  double defect() const override { throw std::runtime_error("it has\nno \"defect\" | at all"); }

 private:
  int64_t left_;
};

Contender failing(const std::string& name, int64_t good_steps, bool constrained = false) {
  Contender result;
  result.name = name;
  result.operations = "2np";
  result.constrained = constrained;
  result.begin = [good_steps](const Subject&, const at::Device&) -> std::unique_ptr<Run> {
    if (good_steps < 0) throw std::invalid_argument("not on this shape");
    return std::make_unique<FailingRun>(good_steps);
  };
  result.begin_training = [](const stiefel::record::Config&) -> std::unique_ptr<TrainingRun> {
    throw std::invalid_argument("not with this network");
  };
  return result;
}

/// Steps whose times are given, and a log of who took them.
class ScriptedRun : public Run {
 public:
  ScriptedRun(std::string name, std::vector<double> seconds, std::vector<std::string>* log)
      : name_(std::move(name)), seconds_(std::move(seconds)), log_(log) {}
  double step() override {
    log_->push_back(name_);
    return seconds_[std::min(taken_++, seconds_.size() - 1)];
  }
  double defect() const override { return 0; }

 private:
  std::string name_;
  std::vector<double> seconds_;
  std::vector<std::string>* log_;
  size_t taken_ = 0;
};

/// The first two steps warm up.
Contender scripted(const std::string& name, const std::vector<double>& seconds,
                   std::vector<std::string>& log) {
  Contender result;
  result.name = name;
  result.begin = [=, &log](const Subject&, const at::Device&) {
    std::vector<double> all{1, 1};
    all.insert(all.end(), seconds.begin(), seconds.end());
    return std::make_unique<ScriptedRun>(name, all, &log);
  };
  return result;
}

StepPlan rounds(int64_t count) {
  StepPlan plan;
  plan.rounds = count;
  return plan;
}

Subject subject() { return shape_subject("4x9"); }

const auto kSilent = [](const std::string&) {};

TEST(Comparison, AStepThatFailsIsARowAndTheOthersAreMeasured) {
  auto chosen = step_contenders({"sgd", "cayley-sgd"});
  chosen.insert(chosen.begin(), failing("at-once", -1));
  chosen.push_back(failing("warming-up", 1));
  chosen.push_back(failing("later", 4));
  chosen.push_back(failing("at-last", 100, true));
  const auto rows = compare_steps(chosen, subject(), at::kCPU, rounds(3), kSilent);
  ASSERT_EQ(rows.size(), 6U);
  EXPECT_EQ(rows[0].failure, "not on this shape");
  EXPECT_EQ(rows[5].failure, "it has no \"defect\" | at all");
  for (const size_t failed : {0, 3, 4, 5}) {
    EXPECT_FALSE(rows[failed].failure.empty()) << rows[failed].method;
    EXPECT_TRUE(std::isnan(rows[failed].median_ms) && std::isnan(rows[failed].ratio_to_sgd));
    EXPECT_EQ(rows[failed].operations, "2np");
  }
  for (const size_t good : {1, 2}) {
    EXPECT_TRUE(rows[good].failure.empty()) << rows[good].failure;
    EXPECT_GT(rows[good].median_ms, 0);
    EXPECT_GT(rows[good].ratio_to_cayley_sgd, 0);
  }
  EXPECT_NE(format_rows(rows, "csv").find(",\"it has no \"\"defect\"\" | at all\"\n"), std::string::npos);
  EXPECT_NE(format_rows(rows, "md").find("failed: it has no \"defect\" \\| at all |\n"), std::string::npos);
  EXPECT_NE(format_rows(rows, "table").find("failed: not on this shape"), std::string::npos);
  EXPECT_NE(format_rows(rows, "json").find("\"failure\": \"not on this shape\""), std::string::npos);
}

TEST(Comparison, WhereNoneCanTheFirstErrorIsThrown) {
  EXPECT_THROW(compare_steps({failing("a", -1), failing("b", 1)}, subject(), at::kCPU, rounds(1), kSilent),
               std::invalid_argument);
  EXPECT_THROW(compare_steps({failing("b", 1), failing("a", -1)}, subject(), at::kCPU, rounds(1), kSilent),
               std::bad_alloc);
}

TEST(Comparison, ContendersAreTheTableOfMethods) {
  std::map<std::string, Contender> all;
  for (const auto& contender : contenders()) EXPECT_TRUE(all.emplace(contender.name, contender).second);
  for (const auto& facts : stiefel::record::method_facts()) {
    if (facts.name == "adamw") continue;  // as ADAM
    ASSERT_EQ(all.count(facts.name), 1U) << facts.name;
    const auto& contender = all[facts.name];
    EXPECT_EQ(contender.title, facts.title);
    EXPECT_EQ(contender.operations, facts.operations);
    EXPECT_EQ(contender.constrained, facts.keeps_orthonormal());
    EXPECT_EQ(static_cast<bool>(contender.begin), facts.name != "muon") << facts.name;
    EXPECT_TRUE(contender.begin_training) << facts.name;
    EXPECT_EQ(all.count(facts.name + "+m"), facts.is_retraction() ? 1U : 0U) << facts.name;
  }
  for (const auto& row : stiefel::record::method_names(stiefel::record::PaperRole::kRival)) {
    EXPECT_TRUE(all[row].by_default) << row;
  }
}

TEST(Comparison, NamesWithoutTheStepOrTheTrainingAreRefused) {
  EXPECT_EQ(step_contenders({"dense"}).size(), 1U);
  EXPECT_EQ(training_contenders({"plain-loop"}).size(), 1U);
  EXPECT_THROW(step_contenders({"plain-loop"}), std::invalid_argument);
  EXPECT_THROW(training_contenders({"sgd", "dense"}), std::invalid_argument);
  EXPECT_THROW(step_contenders({"adamw"}), std::invalid_argument);
}

TEST(Comparison, RatiosAreMediansOfRatiosWithinARound) {
  // The machine is slow in the second round and slower in the third; the ratio of medians would be 4/4.
  std::vector<std::string> log;
  const std::vector<Contender> chosen{scripted("sgd", {1, 4, 8}, log),
                                      scripted("cayley-sgd", {2, 4, 16}, log),
                                      scripted("other", {3, 40, 24}, log)};
  const auto rows = compare_steps(chosen, subject(), at::kCPU, rounds(3), kSilent);
  EXPECT_DOUBLE_EQ(rows[1].median_ms, 4000);
  EXPECT_DOUBLE_EQ(rows[1].ratio_to_sgd, 2);
  EXPECT_DOUBLE_EQ(rows[1].ratio_to_cayley_sgd, 1);
  EXPECT_DOUBLE_EQ(rows[2].ratio_to_sgd, 3);
  EXPECT_DOUBLE_EQ(rows[2].least_ms, 3000);
  EXPECT_DOUBLE_EQ(rows[2].spread_ms, 18500);  // from 13.5 to 32
}

TEST(Comparison, EveryRoundTakesEveryMethodOnceInAnotherOrder) {
  std::vector<std::string> log;
  std::vector<Contender> chosen;
  const std::set<std::string> names{"a", "b", "c", "d", "e", "f"};
  for (const auto& name : names) chosen.push_back(scripted(name, {1}, log));
  compare_steps(chosen, subject(), at::kCPU, rounds(4), kSilent);
  ASSERT_EQ(log.size(), 2 * 6 + 4 * 6U);
  std::set<std::vector<std::string>> orders;
  for (auto round = log.begin() + 12; round != log.end(); round += 6) {
    EXPECT_EQ(std::set<std::string>(round, round + 6), names);
    orders.emplace(round, round + 6);
  }
  EXPECT_GT(orders.size(), 1U);

  log.clear();
  auto plan = rounds(4);
  plan.interleaved = false;
  compare_steps(chosen, subject(), at::kCPU, plan, kSilent);
  EXPECT_TRUE(std::is_sorted(log.begin(), log.end()));
  EXPECT_EQ(log.size(), 6 * 6U);
}

TEST(Comparison, ShortStepsAreAveraged) {
  std::vector<std::string> log;
  auto plan = rounds(2);
  plan.min_seconds = 4;  // a step takes one
  const auto rows = compare_steps({scripted("a", {1, 2, 3, 6}, log)}, subject(), at::kCPU, plan, kSilent);
  EXPECT_EQ(log.size(), 2 + 2 * 4U);
  EXPECT_EQ(rows[0].rounds, (std::vector<std::vector<double>>{{3}, {6}}));
}

TEST(Comparison, RatesAreOfMethodsWhoseProductsAreCounted) {
  auto plan = rounds(1);
  plan.rates = true;
  const auto rows = compare_steps(step_contenders({"sgd", "cayley-sgd", "qr"}), shape_subject("16x64"),
                                  at::kCPU, plan, kSilent);
  EXPECT_TRUE(std::isnan(rows[0].gflops) && std::isnan(rows[2].gflops));
  EXPECT_GT(rows[1].gflops, 0);
  EXPECT_GT(rows[1].of_gemm, 0);
  EXPECT_LE(rows[1].of_gemm_executed, rows[1].of_gemm * (1 + 1e-9));  // one time divides two counts
  EXPECT_NE(format_rows(rows, "csv").find(",gflops,"), std::string::npos);
  EXPECT_EQ(format_rows({rows[0]}, "csv").find("gflops"), std::string::npos);
}

TEST(Comparison, ASlowMethodIsSampledByShape) {
  std::vector<int64_t> counts;
  Workload workload{"net", "net", {{{4, 9}, 5}, {{2, 3}, 7}}};
  std::vector<std::string> log;
  const auto run = sampled_run(workload, [&](const Workload& part) {
    EXPECT_EQ(part.layers.size(), 1U);
    counts.push_back(part.layers[0].count);
    return std::make_unique<ScriptedRun>("x", std::vector<double>{part.layers[0].p() == 4 ? 10.0 : 1.0},
                                         &log);
  });
  EXPECT_EQ(counts, (std::vector<int64_t>{1, 1}));
  EXPECT_DOUBLE_EQ(run->step(), 5 * 10 + 7 * 1);
}

TEST(Comparison, TheSpeedupOverTheDenseFormStandsBesideItsGoal) {
  Row ours;
  ours.method = "cayley-sgd";
  ours.rounds = {{1}, {1}};
  Row dense;
  dense.method = "dense";
  dense.rounds = {{4}, {2}};
  const auto text =
      format_dense_speedup({{shape_workload("256x2304"), {ours, dense}}, {shape_workload("4x9"), {ours}}});
  EXPECT_NE(text.find("3.00"), std::string::npos) << text;
  EXPECT_NE(text.find("≥ 4.50  missed"), std::string::npos) << text;
  EXPECT_EQ(text.find("4×9"), std::string::npos) << text;
  EXPECT_EQ(format_dense_speedup({{shape_workload("4x9"), {ours}}}), "");
}

TEST(Workloads, AreReadFromShapes) {
  EXPECT_EQ(shape_workload("16x64").matrices(), 1);
  const auto stack = shape_workload("16x64x10");
  EXPECT_EQ(stack.layers[0].sizes, (std::vector<int64_t>{10, 16, 64}));
  EXPECT_EQ(stack.matrices(), 10);
  const auto single = shape_workload("16x64*10");
  EXPECT_EQ(single.layers[0].count, 10);
  EXPECT_EQ(single.matrices(), 10);
  EXPECT_EQ(single.weights(), stack.weights());
  for (const char* bad :
       {"", "16", "16x", "0x4", "16x64x", "16x64*0", "16x64x2*3", "16×64", "1e2x4", "-1x4"}) {
    EXPECT_THROW(shape_workload(bad), std::invalid_argument) << bad;
  }
}

TEST(Workloads, NetworksAreThoseOfTheirModels) {
  const auto subjects = standard_subjects(false);
  EXPECT_EQ(subjects[0].weights.matrices(),
            24);  // WRN-28-10 without the first of its first group and 1×1 shortcuts
  EXPECT_EQ(subjects[0].weights.weights(), 36173232);
  EXPECT_EQ(subjects[1].weights.matrices(), 12);  // VGG-16 without its first convolution, 64 of 27
  for (const auto& subject : standard_subjects(true)) EXPECT_FALSE(subject.network) << subject.weights.name;
}

class Training : public support::DataTest {};

TEST_F(Training, RoundsTakeTurnsOnNoiseInTheFormatOfEverySet) {
  for (const char* set : {"mnist", "cifar10", "cifar100"}) {
    const NoiseData noise(set, 20);
    stiefel::record::Config config;
    config.data = set;
    config.data_dir = noise.folder().string();
    config.model = "small";
    config.batch = 10;
    config.device = "cpu";
    const auto rows =
        compare_training(training_contenders({"plain-loop", "sgd", "cayley-sgd"}), config, {2, 3}, kSilent);
    for (const auto& row : rows) {
      EXPECT_EQ(row.failure, "") << set << " " << row.method;
      ASSERT_EQ(row.rounds.size(), 3U) << set << " " << row.method;
      EXPECT_EQ(row.rounds[0].size(), 2U);
      EXPECT_GT(row.ratio_to_sgd, 0);
    }
    EXPECT_LT(rows[2].defect, 1e-4);
    EXPECT_EQ(rows[1].steps_per_epoch, 2) << set;
  }
}

TEST_F(Training, NoiseGoesWithItsObject) {
  std::filesystem::path folder;
  {
    const NoiseData noise("cifar10", 3);
    folder = noise.folder();
    EXPECT_TRUE(std::filesystem::exists(folder));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(Training, ATrainingStepThatFailsIsARowAndTheOthersAreMeasured) {
  support::write_set("mnist", folder_ / "mnist", 40);
  stiefel::record::Config config;
  config.data = "mnist";
  config.data_dir = folder_.string();
  config.model = "small";
  config.batch = 10;
  config.device = "cpu";
  auto chosen = training_contenders({"sgd"});
  chosen.insert(chosen.begin(), failing("fails", 0));
  const auto rows = compare_training(chosen, config, {1, 1}, kSilent);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].failure, "not with this network");
  EXPECT_TRUE(std::isnan(rows[0].median_ms));
  EXPECT_GT(rows[1].median_ms, 0);
  EXPECT_EQ(rows[1].steps_per_epoch, 4);
  EXPECT_THROW(compare_training({failing("fails", 0)}, config, {1, 1}, kSilent), std::invalid_argument);
}

}  // namespace comparison_test
