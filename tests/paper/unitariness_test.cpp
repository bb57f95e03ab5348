#include "paper/unitariness.h"

#include "tests/support.h"
#include "train/resolve_config.h"

// Table 5's cells are different arithmetic for one path: where no form breaks down, all of them take the
// network to the same place, and they differ in how far off the manifold they leave it.

namespace unitariness_test {

using stiefel::paper::CayleyForm;
using stiefel::paper::UnitarinessCell;
using stiefel::record::Config;

UnitarinessCell cell(CayleyForm form, int64_t rounds, bool closed) {
  UnitarinessCell result;
  result.form = form;
  result.rounds = rounds;
  result.closed = closed;
  return result;
}

TEST(Unitariness, AllFormsTakeTheSamePath) {
  Config config;
  config.task = "copying";
  config.model = "urnn-16";
  config.optim = "cayley-sgd";
  config.length = 10;
  config.batch = 16;
  config.momentum = 0.9;
  config.lr = 1e-3;
  config.lr_manifold = 0.02;
  config.device = "cpu";
  stiefel::train::resolve(config);
  std::vector<UnitarinessCell> cells{
      cell(CayleyForm::kPolished, 4, false), cell(CayleyForm::kPolished, 0, true),
      cell(CayleyForm::kPrinted, 0, true),   cell(CayleyForm::kPrinted, 4, false),
      cell(CayleyForm::kReleased, 4, false),
  };
  auto still = std::vector<UnitarinessCell>{cells[0]};
  stiefel::paper::measure_unitariness(config, 40, cells, [](const std::string&) {});
  config.lr_manifold = 1e-9;
  stiefel::paper::measure_unitariness(config, 40, still, [](const std::string&) {});
  const auto& exact = cells[1];
  // K matters: where it hardly moves the loss is another.
  const double gain = std::abs(still[0].loss - exact.loss);
  EXPECT_GT(gain, 1e-3 * exact.loss);
  for (const auto& one : cells) {
    const std::string what = to_string(one.form) + (one.closed ? ", closed" : "");
    EXPECT_NEAR(one.loss, exact.loss, 0.01 * gain) << what;
    EXPECT_NEAR(one.turn, exact.turn, 0.01 * exact.turn) << what;
    EXPECT_LT(one.mean, 1e-4) << what;
  }
}

}  // namespace unitariness_test
