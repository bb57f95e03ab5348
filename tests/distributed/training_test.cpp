#include <stiefel/optim/manifold_optimizer.h>
#include <torch/torch.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "distributed/gradient_buckets.h"
#include "distributed/text.h"
#include "on_ranks.h"
#include "record/metrics.h"
#include "record/run_facts.h"
#include "tests/data/data_support.h"
#include "tests/scratch.h"
#include "train/even_share.h"
#include "train/network.h"
#include "train/trainer.h"

// Several processes that train one network over Gloo, against one process that trains it alone.

namespace stiefel::training_test {

namespace fs = std::filesystem;
using distributed::World;
using record::Checkpoints;
using test::on_ranks;
using train::Config;
using train::Outcome;
using train::Trainer;

constexpr int64_t kBatch = 12;  // 1, 2, 3 and 4 divide it
constexpr double kRounding = 1e-6;
// Where a number before a ReLU is zero up to rounding, one process may see a slope of 0 and several a slope
// of 1. From there the weights part, by 1e-5 and soon by 1e-2: so do those of one process that begins one
// rounding apart.
constexpr double kBeyondKinks = 0.2;

Config finished(Config config) {
  config.device = "cpu";
  config.batch = kBatch;
  config.threads = 1;
  train::resolve(config);
  return config;
}

/// 300 images, augmented, 25 steps per epoch, two epochs.
Config images(const fs::path& data, const std::string& optim) {
  Config config;
  config.data = "cifar10";
  config.data_dir = (data / "cifar10").string();
  config.optim = optim;
  config.epochs = 2;
  config.sync_norm = true;
  return finished(config);
}

/// 100 steps per epoch.
Config copying(const std::string& optim) {
  Config config;
  config.task = "copying";
  config.model = "urnn-12";
  config.length = 8;
  config.optim = optim;
  config.epochs = 1;
  return finished(config);
}

/// 25 steps per epoch.
Config pixels(const fs::path& data) {
  Config config;
  config.task = "pixel";
  config.data = "mnist";
  config.data_dir = (data / "mnist").string();
  config.model = "urnn-6";
  config.epochs = 1;
  config.validation = 12;
  return finished(config);
}

void write_data(const fs::path& folder) {
  support::write_set("cifar10", folder / "cifar10", 60);  // five files of training images
  support::write_set("mnist", folder / "mnist", 312);
}

std::shared_ptr<World> shared(World& world) { return {std::shared_ptr<void>(), &world}; }

/// A trainer whose folder is there.
std::unique_ptr<Trainer> trainer_of(const Config& config, const fs::path& folder,
                                    std::shared_ptr<World> world = nullptr) {
  fs::create_directories(folder);
  return std::make_unique<Trainer>(config, folder, std::vector<std::string>{}, std::move(world));
}

/// Runs without its table.
Outcome quiet_run(Trainer& trainer) {
  struct Capture {
    Capture() { ::testing::internal::CaptureStdout(); }
    ~Capture() { ::testing::internal::GetCapturedStdout(); }
  };
  const Capture capture;
  return trainer.run();
}

/// Every parameter and running statistic after another, in double.
at::Tensor numbers(Trainer& trainer) {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> all;
  for (const auto& p : trainer.model().parameters()) {
    all.push_back((p.is_complex() ? at::view_as_real(p) : p).detach().to(at::kDouble).flatten());
  }
  return at::cat(all);
}

double relative(const at::Tensor& a, const at::Tensor& b) {
  return ((a - b).norm() / b.norm()).item<double>();
}

void expect_close(double a, double b, double tolerance, const std::string& what) {
  EXPECT_LE(std::abs(a - b), tolerance * std::abs(b)) << what << ": " << a << " instead of " << b;
}

std::vector<record::EpochMetrics> metrics_of(const fs::path& folder) {
  std::vector<std::string> warnings;
  return record::read_metrics(folder, warnings);
}

/// Both runs' epochs are alike, to rounding.
void expect_same_metrics(const fs::path& found, const fs::path& wanted, double tolerance,
                         const std::string& what) {
  const auto a = metrics_of(found), b = metrics_of(wanted);
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i) {
    expect_close(a[i].train_loss, b[i].train_loss, tolerance, what + ", training loss");
    expect_close(a[i].test_loss, b[i].test_loss, tolerance, what + ", test loss");
    EXPECT_EQ(a[i].step, b[i].step) << what;
    if (tolerance > kRounding) continue;
    EXPECT_EQ(a[i].train_error, b[i].train_error) << what;
    EXPECT_EQ(a[i].test_error, b[i].test_error) << what;
    EXPECT_EQ(a[i].validation_error, b[i].validation_error) << what;
  }
}

void expect_equal_ranks(World& world, Trainer& trainer, const std::string& what) {
  const auto all = world.ranks()->gather(numbers(trainer));
  for (int64_t rank = 1; rank < world.size(); ++rank) EXPECT_TRUE(all[rank].equal(all[0])) << what;
}

/// Trains by all ranks, and by rank 0 alone.
void expect_what_one_process_does(World& world, const Config& config, const fs::path& folder,
                                  double tolerance, const std::string& what) {
  const auto together = trainer_of(config, folder / what, shared(world));
  EXPECT_EQ(quiet_run(*together).signal, 0) << what;
  expect_equal_ranks(world, *together, what);
  EXPECT_EQ(fs::exists(folder / what / "metrics.jsonl"), world.rank() == 0) << what;
  if (world.rank() != 0) return;
  const auto facts = record::read_run_facts(folder / what);
  EXPECT_EQ(facts.at("processes"), world.size());
  EXPECT_EQ(facts.at("backend"), "gloo");
  const auto alone = trainer_of(config, folder / (what + "-alone"));
  quiet_run(*alone);
  const auto far = relative(numbers(*together), numbers(*alone));
  EXPECT_LE(far, tolerance) << what;
  if (world.size() == 1) {
    EXPECT_EQ(far, 0) << what;
  }
  expect_same_metrics(folder / what, folder / (what + "-alone"), tolerance, what);
}

class Training : public scratch::Test, public ::testing::WithParamInterface<int64_t> {};

/// Epochs of images in double, where no number comes to lie on the wrong side of a kink: what Trainer
/// does in a step, and nothing else. Returns the losses of the batches and the network's parameters at the
/// end.
std::pair<at::Tensor, at::Tensor> train_in_double(const Config& config, int64_t epochs,
                                                  const std::shared_ptr<World>& world) {
  const train::BatchShare share =
      world ? train::BatchShare{world->rank(), world->size()} : train::BatchShare();
  const auto ranks = world ? world->ranks() : nullptr;
  const auto task = train::make_task(config, at::kCPU, share);
  const auto model = train::make_initial_network(config, at::kCPU, ranks);
  model->to(at::kDouble);
  model->train();
  const auto optimizers = train::make_optimizers(*model, config);
  std::unique_ptr<distributed::GradientBuckets> buckets;
  if (world) {
    // Small ones, so that there are several.
    buckets = std::make_unique<distributed::GradientBuckets>(world, model->parameters(), 100000);
    EXPECT_GT(buckets->count(), 2U);
    for (const auto& optimizer : optimizers) {
      if (auto* ours = dynamic_cast<ManifoldOptimizer*>(optimizer.get())) ours->distribute(ranks);
    }
  }
  std::vector<at::Tensor> losses, weights;
  for (int64_t step = 0; step < epochs * task->steps_per_epoch(); ++step) {
    const auto batch = task->batch(step / task->steps_per_epoch(), step % task->steps_per_epoch());
    for (const auto& optimizer : optimizers) optimizer->zero_grad();
    if (buckets) buckets->begin();
    const auto loss = task->loss(model->forward(batch.inputs.to(at::kDouble)), batch.targets);
    loss.backward();
    if (buckets) buckets->finish();
    for (const auto& optimizer : optimizers) optimizer->step();
    losses.push_back(loss.detach() / static_cast<double>(share.ranks));
  }
  for (const auto& parameter : model->parameters()) weights.push_back(parameter.detach().flatten());
  auto all_losses = at::stack(losses);
  if (world) ranks->sum_(all_losses);
  return {all_losses, at::cat(weights)};
}

/// Every optimizer is tried by three processes, among which nothing divides evenly, and one by each other
/// number of them: the others differ in nothing but in how much each process has.
std::vector<const char*> optimizers_for(int64_t ranks) {
  if (ranks == 3) return {"cayley-sgd", "cayley-adam", "cayley-muon", "sgd"};
  return {"cayley-adam"};
}

TEST_P(Training, OfImagesInDoubleIsWhatOneProcessDoes) {
  on_ranks(GetParam(), [&](World& world) {
    write_data(folder_);
    for (const char* optim : optimizers_for(GetParam())) {
      const auto config = images(folder_, optim);
      const int64_t epochs = GetParam() == 3 ? 1 : 2;  // of 25 steps
      const auto [losses, weights] = train_in_double(config, epochs, shared(world));
      const auto all = world.ranks()->gather(weights);
      for (int64_t rank = 1; rank < world.size(); ++rank) EXPECT_TRUE(all[rank].equal(all[0])) << optim;
      if (world.rank() != 0) continue;
      const auto [wanted_losses, wanted_weights] = train_in_double(config, epochs, nullptr);
      EXPECT_LE(relative(losses, wanted_losses), 1e-11) << optim;
      EXPECT_LE(relative(weights, wanted_weights), 1e-11) << optim;
    }
  });
}

/// From most starts the first steps meet no kink; where the arithmetic differs they are equal from none.
void expect_same_first_steps(World& world, Config config, const fs::path& folder) {
  bool equal = false;
  for (config.seed = 1; config.seed <= 5 && !equal; ++config.seed) {
    const auto together = trainer_of(config, folder / "steps", shared(world));
    together->time_steps(3);
    if (world.rank() == 0) {
      const auto alone = trainer_of(config, folder / "steps");
      alone->time_steps(3);
      equal = relative(numbers(*together), numbers(*alone)) <= kRounding;
    }
    equal = distributed::any_rank_says(&world, equal);
  }
  EXPECT_TRUE(equal) << config.method_name();
}

TEST_P(Training, OfImagesIsWhatOneProcessDoes) {
  on_ranks(GetParam(), [&](World& world) {
    write_data(folder_);
    expect_what_one_process_does(world, images(folder_, "cayley-adam"), folder_, kBeyondKinks, "images");
    for (const char* optim : optimizers_for(GetParam())) {
      expect_same_first_steps(world, images(folder_, optim), folder_);
    }
    if (GetParam() != 3) return;
    auto penalized = images(folder_, "sgd");
    penalized.penalty = "srip";
    penalized.penalty_weight = 0.1;
    expect_same_first_steps(world, penalized, folder_);
  });
}

TEST_P(Training, OfRecurrentNetworksIsWhatOneProcessDoes) {
  on_ranks(GetParam(), [&](World& world) {
    write_data(folder_);
    expect_what_one_process_does(world, copying("cayley-adam"), folder_, kRounding, "cayley-adam");
    if (GetParam() != 3) return;
    for (const char* optim : {"cayley-sgd", "cayley-muon", "cayley-closed"}) {
      expect_what_one_process_does(world, copying(optim), folder_, kRounding, optim);
    }
    auto repeated = copying("cayley-adam");
    repeated.share_steps = false;
    expect_what_one_process_does(world, repeated, folder_, kRounding, "repeated");
    auto adding = copying("cayley-sgd");
    adding.task = "adding";
    adding.clip = 0.1;
    expect_what_one_process_does(world, adding, folder_, kRounding, "adding");
    // A state that passes through 784 products shows what each rounds off.
    expect_what_one_process_does(world, pixels(folder_), folder_, 1e-3, "pixels");
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Training, ::testing::Values(1, 2, 3, 4));

/// A folder that all ranks of a test see; rank 0 removes it.
class SharedFolder {
 public:
  explicit SharedFolder(World& world)
      : world_(world), path_(fs::temp_directory_path() / ("stiefel_ranks_" + port())) {
    if (world_.rank() == 0) fs::create_directories(path_);
    world_.barrier();
  }
  ~SharedFolder() {
    std::error_code ignored;
    if (world_.rank() == 0) fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  static std::string port() { return std::getenv("MASTER_PORT"); }

  World& world_;
  fs::path path_;
};

class Resuming : public scratch::Test {};

TEST_F(Resuming, GoesOnWithAnotherNumberOfRanks) {
  on_ranks(3, [&](World& world) {
    write_data(folder_);
    const SharedFolder common(world);
    for (const char* optim : {"cayley-adam", "cayley-muon"}) {
      auto config = copying(optim);
      config.epochs = 2;
      auto first = config;
      first.epochs = 1;
      const auto straight = folder_ / optim / "straight", shrunk = folder_ / optim / "shrunk";
      const auto from_three = common.path() / optim / "three", from_one = common.path() / optim / "one";
      // Three processes, then one.
      const auto three = trainer_of(first, from_three, shared(world));
      quiet_run(*three);
      const auto alone = trainer_of(config, straight);
      quiet_run(*alone);
      std::string complaint;
      if (world.rank() == 0) {
        const auto one = trainer_of(config, shrunk);
        one->resume(*Checkpoints(from_three).newest(complaint));
        quiet_run(*one);
        EXPECT_LE(relative(numbers(*one), numbers(*alone)), kRounding) << optim;
        expect_same_metrics(shrunk, straight, kRounding, optim);
        // One process, then three.
        const auto start = trainer_of(first, from_one);
        quiet_run(*start);
      }
      world.barrier();
      const auto grown = trainer_of(config, from_one, shared(world));
      grown->resume(*Checkpoints(from_one).newest(complaint));
      quiet_run(*grown);
      EXPECT_LE(relative(numbers(*grown), numbers(*alone)), kRounding) << optim;
      expect_equal_ranks(world, *grown, optim);
    }
  });
}

TEST_F(Resuming, IsExactWithTheSameNumberOfRanks) {
  on_ranks(3, [&](World& world) {
    write_data(folder_);
    const SharedFolder common(world);
    const auto config = images(folder_, "cayley-adam");
    auto first = config;
    first.epochs = 1;
    const auto straight = trainer_of(config, folder_ / "straight", shared(world));
    quiet_run(*straight);
    const auto start = trainer_of(first, common.path(), shared(world));
    quiet_run(*start);
    std::string complaint;
    const auto goes_on = trainer_of(config, common.path(), shared(world));
    goes_on->resume(*Checkpoints(common.path()).newest(complaint));
    world.barrier();
    quiet_run(*goes_on);
    EXPECT_TRUE(numbers(*goes_on).equal(numbers(*straight)));
  });
}

TEST_F(Resuming, FromDifferentCheckpointsIsAnError) {
  on_ranks(2, [&](World& world) {
    write_data(folder_);
    auto config = images(folder_, "sgd");
    config.epochs = 1;
    config.seed = 1 + world.rank();  // each alone, so that their checkpoints differ
    const auto own = trainer_of(config, folder_ / "own");
    quiet_run(*own);
    config.seed = 1;
    const auto together = trainer_of(config, folder_ / "own", shared(world));
    std::string complaint;
    const auto message =
        support::message_of([&] { together->resume(*Checkpoints(folder_ / "own").newest(complaint)); });
    EXPECT_NE(message.find("the ranks differ in the checkpoint: rank 1"), std::string::npos) << message;
  });
}

class Ranks : public scratch::Test {};

TEST_F(Ranks, SeeThePartsOfTheBatchOfOneProcess) {
  write_data(folder_);
  for (const auto& config : {images(folder_, "sgd"), pixels(folder_), copying("cayley-sgd")}) {
    const auto whole = train::make_task(config, at::kCPU);
    for (const int64_t ranks : {2, 3, 4}) {
      for (const auto& [epoch, step] : {std::pair<int64_t, int64_t>{0, 0}, {0, 1}, {2, 7}}) {
        std::vector<at::Tensor> inputs, targets;
        for (int64_t rank = 0; rank < ranks; ++rank) {
          const auto batch = train::make_task(config, at::kCPU, {rank, ranks})->batch(epoch, step);
          EXPECT_EQ(batch.targets.size(0), kBatch / ranks);
          inputs.push_back(batch.inputs);
          targets.push_back(batch.targets);
        }
        const auto wanted = whole->batch(epoch, step);
        EXPECT_TRUE(at::cat(inputs).equal(wanted.inputs)) << config.task;
        EXPECT_TRUE(at::cat(targets).equal(wanted.targets)) << config.task;
      }
    }
  }
}

// One launch for all errors before the first step.
TEST_F(Ranks, ThatCannotTrainTogetherAreAnError) {
  on_ranks(2, [&](World& world) {
    const auto error_of = [&](const Config& config) {
      return support::message_of([&] { trainer_of(config, folder_ / "never", shared(world)); });
    };
    auto uneven = copying("cayley-sgd");
    uneven.batch = 15;
    EXPECT_EQ(error_of(uneven),
              "--batch is 15, which 2 processes cannot share evenly; choose a multiple of 2, such as 14");

    auto seeded = copying("cayley-sgd");
    seeded.seed = 1 + world.rank();
    const auto weights = error_of(seeded);
    EXPECT_NE(weights.find("the ranks differ in the initial weights: rank 1"), std::string::npos) << weights;

    write_data(folder_);
    if (world.rank() == 1) support::write_set("mnist", folder_ / "mnist", 300);
    const auto size = error_of(pixels(folder_));
    EXPECT_NE(size.find("the ranks differ in the data: rank 1 has 300 training images instead of 312"),
              std::string::npos)
        << size;
    EXPECT_NE(size.find("--data-dir"), std::string::npos) << size;

    if (world.rank() == 1) {
      std::fstream file(folder_ / "cifar10" / "data_batch_1.bin",
                        std::ios::binary | std::ios::in | std::ios::out);
      file.put('\7');  // the label of the first image
    }
    const auto label = error_of(images(folder_, "sgd"));
    EXPECT_NE(label.find(
                  "the ranks differ in the data: rank 1 has other training labels; rank 0 found cifar10 in "),
              std::string::npos)
        << label;
  });
}

TEST(EvenShare, OfARunThatGoesOnNamesNumbersOfProcesses) {
  Config config;
  const auto error_of = [&](int64_t batch, int64_t processes) {
    config.batch = batch;
    return support::message_of([&] { train::require_even_share_of_run(config, processes); });
  };
  EXPECT_EQ(
      error_of(32, 3),
      "the run's batch is 32, which 3 processes cannot share evenly; go on with a number of processes that "
      "divides it, such as 2 or 4");
  EXPECT_NE(error_of(12, 5).find("such as 4 or 6"), std::string::npos);
  EXPECT_NE(error_of(7, 3).find("such as 1 or 7"), std::string::npos);
  EXPECT_NE(error_of(4, 9).find("such as 4"), std::string::npos);
  train::require_even_share_of_run(config, 2);
}

TEST_F(Ranks, StopTogetherWhereOneIsInterrupted) {
  on_ranks(3, [&](World& world) {
    const SharedFolder common(world);
    auto config = copying("cayley-adam");
    config.epochs = 100000;
    const auto trainer = trainer_of(config, common.path(), shared(world));
    std::thread interrupts;
    if (world.rank() == 1) {
      interrupts = std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(700));
        ::kill(::getpid(), SIGINT);
      });
    }
    EXPECT_EQ(quiet_run(*trainer).signal, SIGINT);
    if (interrupts.joinable()) interrupts.join();
    expect_equal_ranks(world, *trainer, "stopped");
    EXPECT_EQ(record::status_of(common.path()), "interrupted");
    std::string complaint;
    const auto loaded = Checkpoints(common.path()).newest(complaint);
    ASSERT_TRUE(loaded) << complaint;
    EXPECT_GT(loaded->state.total_steps, 0);
    world.barrier();
    // What was written is where they stopped.
    const auto again = trainer_of(config, common.path(), shared(world));
    again->resume(*loaded);
    EXPECT_TRUE(numbers(*again).equal(numbers(*trainer)));
    world.barrier();
  });
}

TEST_F(Ranks, WithoutSyncNormEvaluateTheNetworkOfRank0) {
  on_ranks(2, [&](World& world) {
    write_data(folder_);
    auto config = images(folder_, "sgd");
    config.sync_norm = false;
    config.epochs = 1;
    const auto trainer = trainer_of(config, folder_ / "run", shared(world));
    quiet_run(*trainer);
    expect_equal_ranks(world, *trainer, "weights");
    for (const auto& buffer : trainer->model().buffers()) {
      const auto all = world.ranks()->gather(buffer.to(at::kDouble).reshape({-1}));
      EXPECT_TRUE(all[1].equal(all[0]));
    }
  });
}

}  // namespace stiefel::training_test
