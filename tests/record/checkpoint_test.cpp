#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <sys/stat.h>
#include <torch/torch.h>
#include <zlib.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/files.h"
#include "models/classifier.h"
#include "record/checkpoint.h"
#include "record/config.h"
#include "tests/scratch.h"
#include "train/checkpoint_content.h"
#include "train/methods.h"
#include "train/resolve_config.h"

// Checkpoints: written, damaged, restored.

namespace checkpoint_test {

namespace fs = std::filesystem;
namespace base = stiefel::base;
using namespace stiefel::record;
using stiefel::train::check_content;

class Folder : public scratch::Test {};

struct Tiny {
  Tiny() : model(stiefel::models::make_classifier("small", {1, 10, 0})) {
    stiefel::train::resolve(config);
    auto split = stiefel::split_parameters(*model);
    for (auto& weight : split.manifold) stiefel::init::haar_(weight);
    optimizers = stiefel::train::find_method("cayley-sgd").make(split, config);
  }
  void step(int seed) {
    torch::manual_seed(seed);
    for (auto& optimizer : optimizers) optimizer->zero_grad();
    model->forward(torch::randn({4, 1, 32, 32})).square().sum().backward();
    for (auto& optimizer : optimizers) optimizer->step();
  }
  Config config;
  std::shared_ptr<stiefel::models::Network> model;
  Optimizers optimizers;
};

TEST_F(Folder, CheckpointsRestoreModelOptimizersAndState) {
  Tiny a;
  a.step(1);
  RunState state;
  state.epoch = 3;
  state.step = 7;
  state.total_steps = 107;
  state.loss_sum = 1.0 / 3;
  EpochMetrics metrics;
  metrics.train_loss = NAN;
  metrics.defect_max = 1e-7;
  state.history = {metrics};
  const Checkpoints checkpoints(folder_);
  checkpoints.save(*a.model, a.optimizers, state, "the config", true);
  std::string complaint;
  const auto loaded = checkpoints.newest(complaint);
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->config, "the config");
  EXPECT_EQ(loaded->state.step, 7);
  EXPECT_EQ(loaded->state.loss_sum, 1.0 / 3);
  EXPECT_TRUE(std::isnan(loaded->state.history.at(0).train_loss));
  EXPECT_EQ(*loaded->state.history.at(0).defect_max, 1e-7);
  Tiny b;
  restore(*loaded, *b.model, &b.optimizers);
  a.step(2);
  b.step(2);
  const auto pa = a.model->named_parameters();
  for (const auto& item : b.model->named_parameters())
    EXPECT_TRUE(torch::equal(item.value(), pa[item.key()])) << item.key();
  const auto ba = a.model->named_buffers();
  for (const auto& item : b.model->named_buffers())
    EXPECT_TRUE(torch::equal(item.value(), ba[item.key()])) << item.key();
}

TEST_F(Folder, TheLastTwoAndTheBestAreKept) {
  Tiny a;
  const Checkpoints checkpoints(folder_);
  RunState state;
  for (int i = 1; i <= 5; ++i) {
    state.total_steps = i * 10;
    checkpoints.save(*a.model, a.optimizers, state, "", i == 2);
  }
  std::string complaint;
  EXPECT_EQ(checkpoints.newest(complaint)->state.total_steps, 50);
  EXPECT_EQ(checkpoints.best(complaint)->state.total_steps, 20);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 3);
}

TEST_F(Folder, WhatAKilledRunLeftOfACheckpointGoes) {
  Tiny a;
  const Checkpoints checkpoints(folder_);
  for (const auto* name :
       {"step-000000007.ckpt.tmp", "step-000000007.ckpt.1.tmp", "best.ckpt.tmp", "mine.tmp"})
    std::ofstream(folder_ / name) << "half";
  fs::create_directory(folder_ / "step-000000010.ckpt.tmp");
  RunState state;
  state.total_steps = 10;
  checkpoints.save(*a.model, a.optimizers, state, "", true);
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
  EXPECT_EQ(names, (std::set<std::string>{"best.ckpt", "mine.tmp", "step-000000010.ckpt",
                                          "step-000000010.ckpt.tmp"}));
  std::string complaint;
  EXPECT_EQ(checkpoints.newest(complaint)->state.total_steps, 10);
}

TEST_F(Folder, DamagedCheckpointsAreNamedAndTheOlderOneIsUsed) {
  Tiny a;
  const Checkpoints checkpoints(folder_);
  RunState state;
  state.total_steps = 10;
  checkpoints.save(*a.model, a.optimizers, state, "", false);
  state.total_steps = 20;
  checkpoints.save(*a.model, a.optimizers, state, "", false);
  const auto newest = folder_ / "step-000000020.ckpt";
  const auto whole = base::read_file(newest);
  const auto use = [&](const std::string& bytes) {
    std::ofstream(newest, std::ios::binary | std::ios::trunc) << bytes;
    std::string complaint;
    const auto loaded = checkpoints.newest(complaint);
    EXPECT_TRUE(loaded && loaded->state.total_steps == 10) << complaint;
    return complaint;
  };
  EXPECT_NE(use(whole.substr(0, whole.size() / 2)).find("cut short"), std::string::npos);
  auto flipped = whole;
  flipped[flipped.size() / 2] ^= 1;
  EXPECT_NE(use(flipped).find("checksum"), std::string::npos);
  EXPECT_NE(use("hello").find("no checkpoint"), std::string::npos);
  EXPECT_NE(use("").find("no checkpoint"), std::string::npos);
}

/// A file that says what it is, how long, and with which checksum, and holds this.
std::string checkpoint_with(const std::string& body) {
  const auto crc = crc32(0, reinterpret_cast<const Bytef*>(body.data()), static_cast<uInt>(body.size()));
  char line[64];
  std::snprintf(line, sizeof line, "%zu %08lx\n", body.size(), crc);
  return std::string("stiefel checkpoint 1\n") + line + body;
}

TEST_F(Folder, AWholeFileWithTheWrongContentIsNamedAndTheOlderOneIsUsed) {
  Tiny a;
  const Checkpoints checkpoints(folder_);
  RunState state;
  state.total_steps = 10;
  checkpoints.save(*a.model, a.optimizers, state, to_toml(a.config), false);
  state.total_steps = 20;
  checkpoints.save(*a.model, a.optimizers, state, to_toml(a.config), false);
  const auto newest = folder_ / "step-000000020.ckpt";
  const auto whole = read_checkpoint(newest);
  const auto use = [&](const std::string& body) {
    std::ofstream(newest, std::ios::binary | std::ios::trunc) << checkpoint_with(body);
    std::string complaint;
    const auto loaded = checkpoints.newest(complaint, check_content);
    EXPECT_TRUE(loaded && loaded->state.total_steps == 10) << complaint;
    EXPECT_NE(complaint.find(newest.string()), std::string::npos) << complaint;
    return complaint;
  };
  const auto with_header = [&](const std::string& header) {
    return std::to_string(header.size()) + "\n" + header + whole.archive;
  };
  const auto expect = [&](const std::string& body, const std::string& part) {
    const auto complaint = use(body);
    EXPECT_NE(complaint.find(part), std::string::npos) << complaint;
  };
  for (const auto* body :
       {"", "hello", "hello\n{}", "-1\n{}", "99999999999999999999999\n", "7\n{}", "2 \n{}"})
    expect(body, "its third line is not the length of a header");
  for (const auto* header : {"", "{", "[]", "{}", "7", "{\"config\": 1, \"progress\": {}}"})
    expect(with_header(header), "its header is not a checkpoint's");
  expect(with_header(std::string(100000, '[')), "nested more than 100 deep");
  auto head = nlohmann::json::parse(R"({"config": "", "progress": {"epoch": 1, "step": 0, "total_steps": 20,
    "loss_sum": 0, "wrong": 0, "epoch_seconds": 0, "seconds": 0, "best": 1, "history": []}})");
  head["config"] = to_toml(a.config);
  {
    std::ofstream(newest, std::ios::binary | std::ios::trunc) << checkpoint_with(with_header(head.dump()));
    std::string complaint;
    EXPECT_EQ(checkpoints.newest(complaint, check_content)->state.total_steps, 20) << complaint;
  }
  for (const auto* name : {"epoch", "step", "total_steps", "wrong"}) {
    for (const auto& value : {nlohmann::json(-1), nlohmann::json(1e300), nlohmann::json("1")}) {
      auto other = head;
      other["progress"][name] = value;
      expect(with_header(other.dump()), std::string(name) + " is " + value.dump() + ", not a count");
    }
  }
  auto other = head;
  other["config"] = "no-such-option = 1\n";
  expect(with_header(other.dump()), "no-such-option");
  const auto text = head.dump();
  expect(std::to_string(text.size()) + "\n" + text, "cannot be restored");
  expect(std::to_string(text.size()) + "\n" + text + "no archive", "cannot be restored");
  other["config"] = to_toml([&] {
    auto larger = a.config;
    larger.model = "vgg-13";
    return larger;
  }());
  expect(with_header(other.dump()), "cannot be restored");
}

TEST_F(Folder, TheBestIsGoneOnFromWhereItIsTheNewest) {
  Tiny a;
  const Checkpoints checkpoints(folder_);
  EXPECT_FALSE(checkpoints.any());
  RunState state;
  const auto save = [&](int64_t steps, bool best) {
    state.total_steps = steps;
    checkpoints.save(*a.model, a.optimizers, state, "", best);
  };
  const auto newest = [&] {
    std::string complaint;
    const auto loaded = checkpoints.newest(complaint);
    EXPECT_EQ(complaint, "");
    return loaded ? loaded->path.filename().string() : "";
  };
  save(10, true);
  EXPECT_EQ(newest(), "step-000000010.ckpt");   // both are of the same step
  fs::remove(folder_ / "step-000000010.ckpt");  // killed between the two
  EXPECT_TRUE(checkpoints.any());
  EXPECT_EQ(newest(), "best.ckpt");
  save(20, false);
  EXPECT_EQ(newest(), "step-000000020.ckpt");
  save(30, true);
  fs::remove(folder_ / "step-000000030.ckpt");
  EXPECT_EQ(newest(), "best.ckpt");
}

TEST_F(Folder, ACheckpointThatCannotBeUsedDoesNotPushOutThoseThatCan) {
  Tiny a;
  const Checkpoints checkpoints(folder_);
  for (const auto* name : {"step-000000080.ckpt", "step-000000060.ckpt"})
    std::ofstream(folder_ / name) << "x";
  RunState state;
  for (const int64_t steps : {20, 30, 40}) {
    state.total_steps = steps;
    checkpoints.save(*a.model, a.optimizers, state, "", false);
    std::string complaint;
    EXPECT_EQ(checkpoints.newest(complaint)->state.total_steps, steps);
  }
  EXPECT_FALSE(fs::exists(folder_ / "step-000000020.ckpt"));
  EXPECT_TRUE(fs::exists(folder_ / "step-000000030.ckpt"));
}

TEST_F(Folder, AFifoInPlaceOfACheckpointIsPassedOver) {
  Tiny a;
  const Checkpoints checkpoints(folder_);
  RunState state;
  state.total_steps = 10;
  checkpoints.save(*a.model, a.optimizers, state, "", false);
  for (const auto* name : {"step-000000020.ckpt", "best.ckpt"})
    ASSERT_EQ(mkfifo((folder_ / name).c_str(), 0600), 0);
  std::string complaint;
  EXPECT_EQ(checkpoints.newest(complaint)->state.total_steps, 10);
  EXPECT_NE(complaint.find("is a fifo"), std::string::npos) << complaint;
}

TEST_F(Folder, CheckpointsKeepTheFingerprintOfTheData) {
  Tiny a;
  const Checkpoints checkpoints(folder_);
  RunState state;
  state.total_steps = 10;
  checkpoints.save(*a.model, a.optimizers, state, "", false);
  std::string complaint;
  EXPECT_FALSE(checkpoints.newest(complaint)->state.data);  // as those of older versions
  state.data = stiefel::data::Fingerprint{{512, 0xffffffffU, 1}, {96, 2, 3}};
  checkpoints.save(*a.model, a.optimizers, state, "", false);
  const auto read = checkpoints.newest(complaint)->state.data;
  ASSERT_TRUE(read);
  EXPECT_TRUE(stiefel::data::changes(*state.data, *read).empty());
  EXPECT_EQ(read->train.pixels, 0xffffffffU);
}

}  // namespace checkpoint_test
