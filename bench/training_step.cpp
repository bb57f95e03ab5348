// A whole training step of VGG-13 at batch 128: the trainer with SGD and with Cayley SGD beside the plainest
// LibTorch loop with torch::optim::SGD, all channels-last, on the CPU, in turns within one run. (For a GPU
// there are `stiefel bench epoch --device cuda` and, beside it, pytorch_baseline.py.)
//
//     training_step [ROUNDS]

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>

#include "base/files.h"
#include "base/numbers.h"
#include "bench/threads.h"
#include "models/classifier.h"
#include "train/resolve_config.h"
#include "train/trainer.h"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int64_t kBatch = 128;
constexpr int64_t kSteps = 4;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// A small CIFAR-10 of noise in the real format.
void write_data(const fs::path& folder) {
  fs::create_directories(folder);
  const auto write = [&](const std::string& name, int64_t records) {
    auto bytes = torch::randint(256, {records, 3073}, torch::kByte);
    bytes.select(1, 0).copy_(torch::randint(10, {records}, torch::kByte));
    const auto file = std::unique_ptr<FILE, int (*)(FILE*)>(fopen((folder / name).c_str(), "wb"), fclose);
    if (!file || fwrite(bytes.data_ptr(), 1, static_cast<size_t>(bytes.numel()), file.get()) !=
                     static_cast<size_t>(bytes.numel())) {
      throw std::runtime_error(folder.string() + ": cannot be written");
    }
  };
  write("data_batch_1.bin", kBatch * kSteps - 4);
  for (int i = 2; i <= 5; ++i) write("data_batch_" + std::to_string(i) + ".bin", 1);
  write("test_batch.bin", 10);
}

/// Seconds a step of the trainer, without evaluation and files.
double trainer_seconds(const fs::path& folder, const std::string& optim) {
  stiefel::runs::Config config;
  config.data = "cifar10";
  config.data_dir = folder.string();
  config.model = "vgg-13";
  config.optim = optim;
  config.device = "cpu";
  config.epochs = 1;
  train::resolve(config);
  const auto out = folder / "run";
  fs::remove_all(out);
  fs::create_directories(out);
  stiefel::train::Trainer trainer(config, out, {});
  trainer.run();
  const auto record = nlohmann::json::parse(stiefel::base::read_file(out / "metrics.jsonl"));
  return record["epoch_seconds"].get<double>() / static_cast<double>(kSteps);
}

/// Seconds a step of a loop with nothing in it but the network and torch's SGD.
double plain_seconds() {
  const auto model = stiefel::models::make_classifier("vgg-13", {3, 10, 0});
  {
    const torch::NoGradGuard no_grad;
    for (auto& parameter : model->parameters()) {
      if (parameter.dim() == 4) parameter.set_data(parameter.contiguous(at::MemoryFormat::ChannelsLast));
    }
  }
  torch::optim::SGD optimizer(model->parameters(),
                              torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(5e-4));
  const auto images = torch::randn({kBatch, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto labels = torch::randint(10, {kBatch});
  const auto start = Clock::now();
  for (int64_t i = 0; i < kSteps; ++i) {
    optimizer.zero_grad();
    torch::nn::functional::cross_entropy(model->forward(images), labels).backward();
    optimizer.step();
  }
  return std::chrono::duration<double>(Clock::now() - start).count() / static_cast<double>(kSteps);
}

}  // namespace

int main(int argc, char** argv) {
  int64_t rounds = 5;
  try {
    if (argc > 1) rounds = std::max<int64_t>(1, stiefel::base::to_whole(argv[1]));
    stiefel::bench::set_threads(0);
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr, "training_step: {}\nusage: training_step [ROUNDS]\n", error.what());
    return 2;
  }
  const auto folder = fs::temp_directory_path() / fmt::format("stiefel_training_step_{}", ::getpid());
  write_data(folder / "cifar-10-batches-bin");
  std::map<std::string, std::vector<double>> seconds;
  for (int64_t i = 0; i < rounds; ++i) {
    fmt::print(stderr, "round {} of {}\n", i + 1, rounds);
    seconds["the plainest loop, torch::optim::SGD"].push_back(plain_seconds());
    seconds["the trainer, sgd"].push_back(trainer_seconds(folder, "sgd"));
    seconds["the trainer, cayley-sgd"].push_back(trainer_seconds(folder, "cayley-sgd"));
    seconds["the trainer, cayley-adam"].push_back(trainer_seconds(folder, "cayley-adam"));
  }
  fs::remove_all(folder);
  const double base = median(seconds["the plainest loop, torch::optim::SGD"]);
  fmt::print("\nVGG-13, batch {}, {} threads: seconds a step, medians of {} rounds\n", kBatch,
             at::get_num_threads(), rounds);
  for (const auto& [name, values] : seconds) {
    fmt::print("  {:38} {:6.3f}   {:5.2f}   least {:6.3f}\n", name, median(values), median(values) / base,
               *std::min_element(values.begin(), values.end()));
  }
  return 0;
}
