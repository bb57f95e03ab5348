#include <gtest/gtest.h>

#include <new>
#include <stdexcept>

#include "bench/comparison.h"
#include "bench/formats.h"
#include "tests/data/data_support.h"

// Comparisons in which a method fails: it is a row that says why, and the others are measured.

namespace comparison_test {

using namespace stiefel::bench;

/// Steps that take some time, and fail when told to.
class FailingRun : public Run {
 public:
  explicit FailingRun(int64_t good_steps) : left_(good_steps) {}
  double step() override {
    if (left_-- == 0) throw std::bad_alloc();
    return 0.05;  // long enough for one a turn
  }
  double defect() const override { throw std::runtime_error("it has\nno \"defect\" | at all"); }

 private:
  int64_t left_;
};

Contender failing(const std::string& name, int64_t good_steps, bool constrained = false) {
  return {name,
          "2np",
          "",
          constrained,
          false,
          true,
          [good_steps](const Subject&, const at::Device&) -> std::unique_ptr<Run> {
            if (good_steps < 0) throw std::invalid_argument("not on this shape");
            return std::make_unique<FailingRun>(good_steps);
          },
          [](stiefel::runs::Config&) { throw std::invalid_argument("not with this network"); }};
}

Subject subject() {
  Subject result;
  result.weights = shape_workload("4x9");
  return result;
}

const auto kSilent = [](const std::string&) {};

TEST(Comparison, AStepThatFailsIsARowAndTheOthersAreMeasured) {
  auto chosen = choose_contenders({"sgd", "cayley-sgd"});
  chosen.insert(chosen.begin(), failing("at-once", -1));
  chosen.push_back(failing("warming-up", 1));
  chosen.push_back(failing("later", 4));
  chosen.push_back(failing("at-last", 100, true));
  const auto rows = compare_steps(chosen, subject(), at::kCPU, 3, kSilent);
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
  EXPECT_THROW(compare_steps({failing("a", -1), failing("b", 1)}, subject(), at::kCPU, 1, kSilent),
               std::invalid_argument);
  EXPECT_THROW(compare_steps({failing("b", 1), failing("a", -1)}, subject(), at::kCPU, 1, kSilent),
               std::bad_alloc);
}

class Epochs : public support::DataTest {};

TEST_F(Epochs, ATrainingStepThatFailsIsARowAndTheOthersAreMeasured) {
  support::write_set("mnist", folder_ / "mnist", 40);
  stiefel::runs::Config config;
  config.data = "mnist";
  config.data_dir = folder_.string();
  config.model = "small";
  config.batch = 10;
  config.device = "cpu";
  auto chosen = choose_contenders({"sgd"});
  chosen.insert(chosen.begin(), failing("fails", 0));
  const auto rows = compare_epochs(chosen, config, 1, kSilent);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].failure, "not with this network");
  EXPECT_TRUE(std::isnan(rows[0].median_ms));
  EXPECT_GT(rows[1].median_ms, 0);
  EXPECT_EQ(rows[1].steps_per_epoch, 4);
  EXPECT_THROW(compare_epochs({failing("fails", 0)}, config, 1, kSilent), std::invalid_argument);
}

}  // namespace comparison_test
