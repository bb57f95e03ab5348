#include <torch/torch.h>

#include <sstream>

#include "base/files.h"
#include "tests/data/data_support.h"
#include "tests/scratch.h"
#include "tests/support.h"
#include "train/trainer.h"

// Training with --overlap-steps on against training with off: the same bits on the CPU, also where only some
// of it can be overlapped, and a word where nothing can.

namespace overlapped_training_test {

namespace fs = std::filesystem;
using stiefel::record::Checkpoints;
using stiefel::train::Config;
using stiefel::train::Trainer;

class OverlappedTraining : public scratch::Test {
 protected:
  void SetUp() override { support::write_set("cifar10", folder_ / "cifar10", 12); }

  /// 60 images, 5 steps per epoch.
  Config images(const std::string& optim) const {
    Config config;
    config.data = "cifar10";
    config.data_dir = (folder_ / "cifar10").string();
    config.optim = optim;
    config.batch = 12;
    config.epochs = 2;
    return config;
  }

  std::unique_ptr<Trainer> trainer_of(Config config, const std::string& overlap,
                                      const std::string& run) const {
    config.device = "cpu";
    config.threads = 1;
    config.overlap_steps = overlap;
    stiefel::train::resolve(config);
    fs::create_directories(folder_ / run);
    return std::make_unique<Trainer>(config, folder_ / run, std::vector<std::string>{});
  }

  /// What a run prints.
  static std::string run(Trainer& trainer) {
    ::testing::internal::CaptureStdout();
    trainer.run();
    return ::testing::internal::GetCapturedStdout();
  }

  std::string text_of(const std::string& file) const { return stiefel::base::read_file(folder_ / file); }
};

void expect_equal(Trainer& a, Trainer& b, const std::string& what) {
  const auto left = a.model().parameters(), right = b.model().parameters();
  for (size_t i = 0; i < left.size(); ++i) {
    EXPECT_TRUE(left[i].equal(right[i])) << what << ", parameter " << i << " of shape " << left[i].sizes();
  }
}

TEST_F(OverlappedTraining, EqualsTheOtherBitForBit) {
  for (const char* optim : {"cayley-sgd", "cayley-adam", "cayley-muon", "qr", "sgd"}) {
    auto config = images(optim);
    config.clip = 0.5;  // of Euclidean gradients
    const auto on = trainer_of(config, "on", "on"), off = trainer_of(config, "off", "off");
    EXPECT_EQ(on->overlaps_steps(), std::string(optim) != "sgd") << "nothing to overlap";
    EXPECT_FALSE(off->overlaps_steps());
    on->time_steps(7);
    off->time_steps(7);
    expect_equal(*on, *off, optim);
  }
  Config adding;
  adding.task = "adding";
  adding.model = "urnn-12";
  adding.length = 6;
  const auto on = trainer_of(adding, "on", "on"), off = trainer_of(adding, "off", "off");
  EXPECT_TRUE(on->overlaps_steps());
  on->time_steps(5);
  off->time_steps(5);
  expect_equal(*on, *off, "adding");
}

TEST_F(OverlappedTraining, ARunGoesOnWithOrWithoutIt) {
  const auto config = images("cayley-adam");
  const auto whole = trainer_of(config, "off", "whole");
  run(*whole);
  auto first = config;
  first.epochs = 1;
  run(*trainer_of(first, "on", "parts"));
  std::string complaint;
  const auto loaded = Checkpoints(folder_ / "parts").newest(complaint);
  ASSERT_TRUE(loaded) << complaint;
  for (const char* overlap : {"on", "off"}) {
    const auto second = trainer_of(config, overlap, std::string("second-") + overlap);
    second->resume(*loaded);
    run(*second);
    expect_equal(*second, *whole, overlap);
  }
  EXPECT_NE(text_of("second-on/run.json").find("\"overlapped\": true"), std::string::npos);
  EXPECT_NE(text_of("second-off/run.json").find("\"overlapped\": false"), std::string::npos);
}

TEST_F(OverlappedTraining, WhatNeedsAllGradientsFirstGoesOnWithAReason) {
  auto config = images("polar-ns");
  config.epochs = 1;
  config.rms_scaled = true;
  const auto on = trainer_of(config, "on", "on"), off = trainer_of(config, "auto", "off");
  EXPECT_FALSE(on->overlaps_steps());
  EXPECT_NE(run(*on).find("--overlap-steps on has no effect: --rms-scaled divides"), std::string::npos);
  EXPECT_EQ(run(*off).find("--overlap-steps"), std::string::npos);
  expect_equal(*on, *off, "scaled");
}

TEST_F(OverlappedTraining, OtherWordsAreRefused) {
  Config config;
  config.overlap_steps = "yes";
  try {
    stiefel::train::resolve(config);
    ADD_FAILURE();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("--overlap-steps is 'yes'; it must be one of auto, on, off"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace overlapped_training_test
