#include "bench/ranks_comparison.h"

#include <gtest/gtest.h>

#include "bench/network_workload.h"
#include "bench/ranks_model.h"
#include "bench/start.h"
#include "tests/thread_ranks.h"

// What ranks send per step, counted, is what the formulas say.

namespace ranks_comparison_test {

using stiefel::bench::Way;

stiefel::bench::Workload workload() {
  stiefel::bench::Workload result;
  result.name = "test";
  result.layers = {{{8, 40}, 3}, {{50, 6}, 1}, {{7, 7}, 2}, {{6, 5, 3, 3}, 2}, {{4, 3, 10}, 1, true}};
  return result;
}

TEST(RanksComparison, CountsTheBytesAndMessagesThatItsFormulasPredict) {
  for (const int64_t size : {1, 2, 3, 4, 17}) {
    support::run_ranks(size, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
      stiefel::bench::RanksPlan plan;
      plan.rounds = 1;
      // start_of() keeps the starts of all workloads in one place.
      static std::mutex starts;
      {
        const std::lock_guard<std::mutex> alone(starts);
        for (const auto& layer : workload().layers) stiefel::bench::start_of(layer);
      }
      const auto rows =
          stiefel::bench::compare_ranks(workload(), ranks, at::kCPU, plan, [](const std::string&) {});
      EXPECT_EQ(rows.size(), 12);
      for (const auto& row : rows) {
        const auto what = to_string(row.way) + " by " + row.method + " on " + std::to_string(size);
        EXPECT_NEAR(row.sent.bytes, row.predicted.bytes, 1) << what;
        EXPECT_EQ(row.sent.sums, row.predicted.sums) << what;
        EXPECT_EQ(row.sent.gathers, row.predicted.gathers) << what;
        EXPECT_EQ(row.sent.bytes == 0, size == 1 || row.way == Way::kRepeated);
        EXPECT_GT(row.median_ms, 0);
      }
    });
  }
}

TEST(RanksComparison, SendsFewerBytesByGramMatricesThanByWholeMatrices) {
  const auto network = stiefel::bench::network_workload("wrn-28-10").weights;
  for (const int64_t size : {2, 8, 64}) {
    EXPECT_LT(predicted_traffic(network, Way::kDivided, "cayley-sgd", size).bytes,
              predicted_traffic(network, Way::kGathered, "cayley-sgd", size).bytes);
  }
}

TEST(RanksModel, AddsUpWorkBytesAndHops) {
  // One 10×30 matrix and its like: np² + p³ = 4000 each.
  stiefel::bench::Workload pair;
  pair.layers = {{{10, 30}, 2}};
  const stiefel::bench::Link link{1e6, 1e-3};
  const auto rows = stiefel::bench::predict_steps(pair, "cayley-sgd", {8, 16}, link, {1, 2, 4});
  ASSERT_EQ(rows.size(), 9);
  // One process is what was measured.
  for (size_t i = 0; i < 3; ++i) EXPECT_DOUBLE_EQ(rows[i].seconds, rows[i].way == Way::kDivided ? 16 : 8);
  const auto& shared = rows[4];
  EXPECT_DOUBLE_EQ(shared.work, 0.5);
  EXPECT_EQ(shared.sent, 10 * 30 * 4 + 16);
  EXPECT_DOUBLE_EQ(shared.seconds, 4 + 1216e-6 + 1e-3);
  // A third process has nothing to do; parts of the long side are for all.
  EXPECT_DOUBLE_EQ(rows[7].work, 0.5);
  EXPECT_DOUBLE_EQ(rows[8].work, (3000.0 / 4 + 1000) / 4000);
  EXPECT_DOUBLE_EQ(rows[8].seconds, 16 * rows[8].work + static_cast<double>(rows[8].sent) / 1e6 + 8e-3);
}

TEST(RanksComparison, RefusesOtherMethods) {
  support::run_ranks(1, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    stiefel::bench::RanksPlan plan;
    plan.methods = {"adam"};
    EXPECT_THROW(stiefel::bench::compare_ranks(workload(), ranks, at::kCPU, plan, [](const std::string&) {}),
                 std::invalid_argument);
  });
}

}  // namespace ranks_comparison_test
