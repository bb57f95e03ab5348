#include "record/checkpoint_interval.h"

#include <gtest/gtest.h>

#include <vector>

namespace checkpoint_interval_test {

using stiefel::record::CheckpointInterval;

TEST(CheckpointInterval, CountsEpochs) {
  CheckpointInterval interval(3, 0);
  interval.record(0, 1000);
  std::vector<int64_t> due;
  for (int64_t epoch = 1; epoch <= 7; ++epoch) {
    if (interval.is_due(epoch, 1001)) due.push_back(epoch);
  }
  EXPECT_EQ(due, (std::vector<int64_t>{3, 6}));
}

TEST(CheckpointInterval, TakesATwentiethOfTheTimeAtMost) {
  // Epochs of a second, and checkpoints that take half a one, then 40 ms.
  for (const double cost : {0.5, 0.04}) {
    CheckpointInterval interval(0, 0);
    EXPECT_TRUE(interval.is_due(1, 1)) << "what one takes is not known yet";
    double now = 0;
    double writing = 0;
    int written = 0;
    for (int64_t epoch = 1; epoch <= 1000; ++epoch) {
      now += 1;
      if (!interval.is_due(epoch, now)) continue;
      interval.record(now, now + cost);
      now += cost;
      writing += cost;
      ++written;
    }
    EXPECT_LE(writing, 0.05 * now + cost);
    // And not more seldom than that: an epoch's end may come almost an epoch late.
    EXPECT_GE(written, static_cast<int>(now / (20 * cost + 1)));
  }
}

}  // namespace checkpoint_interval_test
