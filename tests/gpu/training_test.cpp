#include <gtest/gtest.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/files.h"
#include "data/device_images.h"
#include "tests/data/data_support.h"
#include "train/step_graph.h"
#include "train/tasks/epoch_table.h"
#include "train/trainer.h"

// Training on a GPU: the step as one CUDA graph does what the same step does kernel by kernel. Without a GPU
// everything here is skipped.

namespace training_test {

namespace fs = std::filesystem;
using namespace stiefel::train;
using stiefel::record::Checkpoints;

const at::Device kCuda(at::kCUDA);

class CudaTraining : public scratch::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    // Algorithms that add in any order would blur every comparison.
    at::globalContext().setDeterministicCuDNN(true);
    support::write_set("cifar10", folder_ / "cifar10", 80);
    support::write_set("mnist", folder_ / "mnist", 320);
  }

  /// Images: 400 of them, augmented, in 25 steps an epoch.
  Config images(const std::string& optim) const {
    Config config;
    config.data = "cifar10";
    config.data_dir = (folder_ / "cifar10").string();
    config.optim = optim;
    config.batch = 16;
    config.epochs = 4;
    config.device = "cuda";
    config.precision = "fp32";
    config.lr = optim == "adam" ? 1e-3 : 0.01;
    return config;
  }

  Config sequences(const std::string& task) const {
    Config config;
    config.task = task;
    config.data = "mnist";
    config.data_dir = (folder_ / "mnist").string();
    config.model = "urnn-16";
    config.length = 20;
    config.batch = 16;
    config.epochs = 4;
    config.device = "cuda";
    if (task == "pixel") config.validation = 0;
    return config;
  }
};

std::unique_ptr<Trainer> trainer_of(Config config, const fs::path& folder = {}) {
  resolve(config);
  return std::make_unique<Trainer>(config, folder, std::vector<std::string>{});
}

/// Every parameter after another, in double on the CPU.
at::Tensor numbers(Trainer& trainer) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> all;
  for (const auto& p : trainer.model().parameters()) {
    all.push_back((p.is_complex() ? at::view_as_real(p) : p).detach().cpu().to(at::kDouble).flatten());
  }
  return at::cat(all);
}

/// Runs without its table, which would drown a test's own words.
Outcome quiet_run(Trainer& trainer) {
  ::testing::internal::CaptureStdout();
  const auto outcome = trainer.run();
  ::testing::internal::GetCapturedStdout();
  return outcome;
}

double far(const at::Tensor& a, const at::Tensor& b) { return (a - b).norm().item<double>(); }

/// Takes `steps` steps with a graph and as many without; both must end at the same place, to a part of the
/// way there.
void expect_graph_equals_eager(Config config, int64_t steps, double tolerance, const std::string& what) {
  auto captured = trainer_of(config);
  config.graph = "off";
  auto eager = trainer_of(config);
  const auto start = numbers(*eager);
  ASSERT_EQ(far(numbers(*captured), start), 0) << what;
  captured->time_steps(steps);
  eager->time_steps(steps);
  EXPECT_TRUE(captured->graph().captured()) << what << ": " << captured->graph().reason();
  EXPECT_FALSE(eager->graph().captured());
  const auto end = numbers(*eager);
  const double way = far(end, start);
  EXPECT_GT(way, 1e-3) << what;
  EXPECT_LT(far(numbers(*captured), end) / way, tolerance) << what;
  const auto a = captured->evaluate(Task::Part::kTest);
  const auto b = eager->evaluate(Task::Part::kTest);
  EXPECT_NEAR(a.loss, b.loss, tolerance * (1 + b.loss)) << what;
}

TEST_F(CudaTraining, AGraphDoesWhatTheKernelsDoOneByOne) {
  for (const char* optim : {"sgd", "adam", "adamw", "muon", "cayley-sgd", "cayley-adam", "cayley-muon"}) {
    expect_graph_equals_eager(images(optim), 30, 1e-2, optim);
  }
  for (const char* rest : {"adam", "rmsprop"}) {
    auto config = images("cayley-sgd");
    config.rest = rest;
    config.lr = 1e-3;
    expect_graph_equals_eager(config, 30, 1e-2, std::string("cayley-sgd beside ") + rest);
  }
}

TEST_F(CudaTraining, AGraphFollowsDropoutPenaltiesAndClipping) {
  auto dropout = images("sgd");
  dropout.model = "wrn-10-1";
  dropout.dropout = 0.4;
  expect_graph_equals_eager(dropout, 30, 1e-2, "dropout");
  for (const char* penalty : {"so", "dso", "srip"}) {
    auto config = images("sgd");
    config.penalty = penalty;
    config.penalty_weight = 1e-2;
    config.penalty_schedule = "1:0.1";  // a graph must learn of it
    expect_graph_equals_eager(config, 40, 1e-2, penalty);
  }
  auto both = dropout;
  both.penalty = "srip";
  both.penalty_weight = 1e-2;
  expect_graph_equals_eager(both, 30, 1e-2, "dropout and srip");
  auto clipped = images("sgd");
  clipped.clip = 0.1;
  expect_graph_equals_eager(clipped, 30, 1e-2, "clip");
}

TEST_F(CudaTraining, AGraphTrainsLipschitzBoundedNetworks) {
  auto config = images("cayley-muon");
  config.model = "lip-2-16";
  config.lr = 1e-3;
  for (const char* loss : {"cross-entropy", "offset-cross-entropy", "emma", "hinge"}) {
    config.loss = loss;
    expect_graph_equals_eager(config, 30, 1e-2, loss);
  }
  for (const char* precision : {"tf32", "bf16"}) {
    config.precision = precision;
    expect_graph_equals_eager(config, 30, 1e-2, precision);
  }
  auto dense = images("sgd");
  dense.model = "lip-mlp-2x32";
  dense.lr = 1e-3;
  expect_graph_equals_eager(dense, 30, 1e-2, "lip-mlp");
}

TEST_F(CudaTraining, StepsBehindTheBackwardPassDoWhatStepsAfterItDo) {
  for (const char* optim : {"cayley-sgd", "cayley-adam", "cayley-muon", "polar-ns"}) {
    for (const char* precision : {"fp32", "tf32", "bf16"}) {
      auto config = images(optim);
      config.precision = precision;
      config.overlap_steps = "on";
      const auto overlapped = trainer_of(config);
      const auto start = numbers(*overlapped);
      overlapped->time_steps(20);
      EXPECT_TRUE(overlapped->overlaps_steps());
      EXPECT_TRUE(overlapped->graph().captured()) << overlapped->graph().reason();
      config.overlap_steps = "off";
      const auto plain = trainer_of(config);
      plain->time_steps(20);
      EXPECT_FALSE(plain->overlaps_steps());
      const auto end = numbers(*plain);
      // The passes may choose other algorithms from one run to the next; in bfloat16 that shows.
      const double tolerance = std::string(precision) == "bf16" ? 0.2 : 1e-2;
      EXPECT_LT(far(numbers(*overlapped), end) / far(end, start), tolerance) << optim << " " << precision;
      for (const double defect : overlapped->measure_defects()) EXPECT_LT(defect, 1e-4) << optim << precision;
    }
  }
}

TEST_F(CudaTraining, AGraphRunsSequences) {
  for (const char* task : {"pixel", "copying", "adding"}) {
    expect_graph_equals_eager(sequences(task), 12, 2e-2, task);
  }
}

TEST_F(CudaTraining, LowPrecisionsTrain) {
  for (const char* precision : {"tf32", "bf16"}) {
    for (const char* optim : {"sgd", "cayley-sgd", "cayley-adam"}) {
      auto config = images(optim);
      config.precision = precision;
      auto trainer = trainer_of(config);
      const auto before = trainer->evaluate(Task::Part::kTest);
      trainer->time_steps(60);
      EXPECT_TRUE(trainer->graph().captured()) << trainer->graph().reason();
      EXPECT_TRUE(std::isfinite(before.loss));
      EXPECT_TRUE(at::isfinite(numbers(*trainer)).all().item<bool>()) << precision << optim;
      for (const double defect : trainer->measure_defects()) EXPECT_LT(defect, 1e-4) << precision << optim;
    }
  }
}

TEST_F(CudaTraining, ASchedulesRateReachesTheGraph) {
  auto choices =
      std::vector<Config>{images("sgd"), images("adam"), images("cayley-sgd"), images("cayley-adam")};
  choices.push_back(images("cayley-sgd"));
  choices.back().rest = "rmsprop";
  for (auto& config : choices) {
    config.drops = {1};
    config.drop_factor = 1e-12;  // from the second epoch on nothing moves that has a rate
    auto trainer = trainer_of(config);
    const auto weights = [&] {
      std::vector<at::Tensor> all;
      for (const auto& p : trainer->model().parameters()) all.push_back(p.detach().cpu().flatten());
      return at::cat(all);
    };
    const auto start = weights();
    trainer->time_steps(trainer->steps_per_epoch());
    ASSERT_TRUE(trainer->graph().captured()) << trainer->graph().reason();
    const auto dropped = weights();
    EXPECT_GT(far(dropped, start), 1e-3);
    trainer->time_steps(10);
    // A step on the manifold still takes off what rounding has added.
    EXPECT_LT(far(weights(), dropped), 1e-4) << config.optim;
  }
}

TEST_F(CudaTraining, AResumedRunEqualsAnUnbrokenOne) {
  for (const char* optim : {"sgd", "adam", "adamw", "cayley-sgd", "cayley-adam"}) {
    auto config = images(optim);
    config.epochs = 3;
    config.drops = {2};
    const auto whole = folder_ / (std::string("whole-") + optim);
    const auto parts = folder_ / (std::string("parts-") + optim);
    fs::create_directories(whole);
    fs::create_directories(parts);
    auto straight = trainer_of(config, whole);
    const auto start = numbers(*straight);
    EXPECT_EQ(quiet_run(*straight).signal, 0);
    auto first = config;
    first.epochs = 1;
    EXPECT_EQ(quiet_run(*trainer_of(first, parts)).signal, 0);
    std::string complaint;
    const auto loaded = Checkpoints(parts).newest(complaint);
    ASSERT_TRUE(loaded) << complaint;
    auto second = trainer_of(config, parts);
    second->resume(*loaded);
    EXPECT_EQ(quiet_run(*second).signal, 0);
    EXPECT_TRUE(second->graph().captured()) << second->graph().reason();
    const auto end = numbers(*straight);
    EXPECT_LT(far(numbers(*second), end) / far(end, start), 2e-2) << optim;
  }
}

TEST_F(CudaTraining, ASignalInTheMiddleLosesNoStep) {
  auto config = images("adam");
  config.epochs = 60;
  const auto whole = folder_ / "unbroken";
  const auto parts = folder_ / "broken";
  fs::create_directories(whole);
  fs::create_directories(parts);
  auto straight = trainer_of(config, whole);
  quiet_run(*straight);
  std::signal(SIGTERM, SIG_IGN);  // should the run be over before the signal comes
  int64_t total = 0;
  for (int turn = 0; turn < 40; ++turn) {
    auto trainer = trainer_of(config, parts);
    std::string complaint;
    if (const auto loaded = Checkpoints(parts).newest(complaint)) trainer->resume(*loaded);
    std::thread killer([turn] {
      std::this_thread::sleep_for(std::chrono::milliseconds(300 + 100 * turn));
      ::kill(::getpid(), SIGTERM);
    });
    const auto outcome = quiet_run(*trainer);
    killer.join();
    total = Checkpoints(parts).newest(complaint)->state.total_steps;
    if (outcome.signal == 0) break;
  }
  std::signal(SIGTERM, SIG_DFL);
  EXPECT_EQ(total, 60 * 25);
  const auto a = stiefel::base::read_file(whole / "metrics.jsonl");
  const auto b = stiefel::base::read_file(parts / "metrics.jsonl");
  EXPECT_EQ(std::count(a.begin(), a.end(), '\n'), 60);
  EXPECT_EQ(std::count(b.begin(), b.end(), '\n'), 60);
}

TEST_F(CudaTraining, WhatCannotBeRecordedGoesOnWithAReason) {
  auto x = torch::zeros({}, kCuda);
  // LibTorch refuses the first by itself; the second spoils the recording.
  for (const bool spoils : {false, true}) {
    StepGraph graph(kCuda, true);
    auto drawn = torch::zeros({8}, kCuda);
    x.zero_();
    for (int step = 1; step <= 8; ++step) {
      graph.run([&] {
        x.add_(1);
        drawn.uniform_();
        if (spoils) {
          torch::cuda::synchronize();
        } else {
          x.item<double>();
        }
      });
      EXPECT_EQ(x.item<double>(), step) << "a step was lost or repeated";
    }
    EXPECT_FALSE(graph.captured());
    EXPECT_FALSE(graph.reason().empty());
    EXPECT_TRUE(graph.take_reason());
    EXPECT_FALSE(graph.take_reason()) << "once";
  }
  // The generator and the allocator are out of the recording again.
  EXPECT_TRUE(at::isfinite(torch::rand({1000}, kCuda)).all().item<bool>());
  StepGraph next(kCuda, true);
  for (int step = 0; step < 6; ++step) next.run([&] { x.add_(1); });
  EXPECT_TRUE(next.captured()) << next.reason();
  EXPECT_EQ(x.item<double>(), 14);
}

TEST_F(CudaTraining, AFallBackIsPrinted) {
  auto config = images("sgd");
  config.weights = "matrix-exp";
  config.epochs = 1;
  const auto run = folder_ / "exp";
  fs::create_directories(run);
  auto trainer = trainer_of(config, run);
  ::testing::internal::CaptureStdout();
  trainer->run();
  const auto printed = ::testing::internal::GetCapturedStdout();
  EXPECT_FALSE(trainer->graph().captured());
  EXPECT_NE(printed.find("no CUDA graph"), std::string::npos) << printed;
  EXPECT_NE(printed.find(trainer->graph().reason()), std::string::npos) << printed;
}

TEST_F(CudaTraining, ReplaysDrawWhatTheirSeedSays) {
  StepGraph graph(kCuda, true);
  auto generator = at::globalContext().defaultGenerator(kCuda).clone();
  graph.use(generator);
  auto own = torch::zeros({16}, kCuda);
  auto common = torch::zeros({16}, kCuda);
  const auto draw = [&] {
    own.copy_(at::rand({16}, generator, own.options()));
    common.uniform_();
  };
  std::vector<at::Tensor> expected;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    generator.set_current_seed(seed);
    torch::manual_seed(100 + seed);
    draw();
    expected.push_back(at::cat({own, common}).cpu());
  }
  for (uint64_t seed = 0; seed < 8; ++seed) {
    generator.set_current_seed(seed);
    torch::manual_seed(100 + seed);
    graph.run(draw);
    EXPECT_TRUE(at::equal(at::cat({own, common}).cpu(), expected[seed])) << "step " << seed;
  }
  EXPECT_TRUE(graph.captured()) << graph.reason();
}

TEST_F(CudaTraining, TheTallyCountsAsArgmaxDoes) {
  Config config = images("sgd");
  resolve(config);
  const auto task = make_task(config, kCuda);
  for (const int64_t classes : {1, 2, 10, 100}) {
    Tally tally(kCuda);
    tally.reset(0.5, 7);
    double losses = 0.5;
    int64_t wrong = 7;
    for (const int64_t count : {1, 128, 500}) {
      auto scores = torch::randint(-3, 3, {count, classes}, kCuda).to(at::kFloat);  // with many equal ones
      if (count == 500) scores.view(-1)[3 % classes] = NAN;
      const auto targets = torch::randint(classes, {count}, at::TensorOptions(at::kLong).device(kCuda));
      const auto loss = torch::rand({}, kCuda);
      tally.add(*task, loss, scores, targets);
      losses += loss.item<double>();
      wrong += scores.cpu().argmax(-1).ne(targets.cpu()).sum().item<int64_t>();
    }
    EXPECT_NEAR(tally.loss_sum.item<double>(), losses, 1e-12);
    EXPECT_EQ(tally.wrong.item<int64_t>(), wrong) << classes;
  }
}

TEST_F(CudaTraining, BatchesAreTheCpusBitForBit) {
  using stiefel::data::Augment;
  using stiefel::data::DeviceImages;
  for (const int64_t channels : {1, 3}) {
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      const auto side = channels == 1 ? 28 : 32;
      const stiefel::data::Images images{torch::randint(256, {70, channels, side, side}, at::kByte),
                                         torch::randint(10, {70}, at::kLong)};
      const auto norm = normalization_of(images);
      const DeviceImages here(images, norm, at::kCPU, format);
      const DeviceImages there(images, norm, kCuda, format);
      const auto pick = torch::randperm(70).narrow(0, 0, 33).contiguous();
      for (const Augment augment :
           {Augment{}, Augment{true, false}, Augment{false, true}, Augment{true, true}}) {
        const auto a = here.batch(pick, augment, 5, 1, 2);
        const auto b = there.batch(pick, augment, 5, 1, 2);
        EXPECT_TRUE(at::equal(a.images, b.images.cpu()));
        EXPECT_TRUE(at::equal(a.labels, b.labels.cpu()));
        EXPECT_TRUE(b.images.is_contiguous(format));
        EXPECT_EQ(b.images.suggest_memory_format(), format);
      }
      EXPECT_TRUE(at::equal(here.range(3, 60).images, there.range(3, 60).images.cpu()));
    }
  }
}

TEST_F(CudaTraining, TheTableGivesItsRowsToAGraph) {
  StepGraph graph(kCuda, true);
  EpochTable table(kCuda);
  auto row = torch::zeros({3}, at::TensorOptions(at::kLong).device(kCuda));
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto made = torch::randint(1000, {7, 3}, at::kLong);
    for (int64_t step = epoch == 1 ? 4 : 0; step < 7; ++step) {  // a run may go on in the middle
      table.seek(epoch, step, [&] { return made; });
      graph.run([&] { row.copy_(table.next()); });
      EXPECT_TRUE(at::equal(row.cpu(), made[step])) << epoch << " " << step;
    }
  }
  EXPECT_TRUE(graph.captured()) << graph.reason();
}

}  // namespace training_test
