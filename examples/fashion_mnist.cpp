// Trains a small convolutional network with Cayley SGD on Fashion-MNIST and prints the loss, the test error
// and the orthonormality defect of its weights.

#include <stiefel/stiefel.h>
#include <torch/torch.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <thread>

#include "data/idx.h"

namespace {

namespace nn = torch::nn;
namespace F = torch::nn::functional;

struct Split {
  torch::Tensor images;
  torch::Tensor labels;
};

Split read(const std::string& folder, const std::string& name, const torch::Device& device) {
  const auto images = stiefel::data::read_idx(folder + "/" + name + "-images-idx3-ubyte.gz");
  const auto labels = stiefel::data::read_idx(folder + "/" + name + "-labels-idx1-ubyte.gz");
  if (images.size(0) != labels.size(0)) {
    throw std::runtime_error(folder + ": " + std::to_string(images.size(0)) + " " + name + " images but " +
                             std::to_string(labels.size(0)) + " labels");
  }
  // Mean 0 and deviation 1 over the training set (0.2860 and 0.3530 for Fashion-MNIST).
  const auto pixels = images.to(torch::kFloat).div_(255).sub_(0.2860).div_(0.3530).unsqueeze(1);
  return {pixels.to(device), labels.to(torch::kLong).to(device)};
}

nn::Sequential make_network() {
  const auto convolution = [](int in, int out) {
    return nn::Conv2d(nn::Conv2dOptions(in, out, 3).padding(1).bias(false));
  };
  return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(1, 16, 5).padding(2).stride(2).bias(false)),
                        nn::BatchNorm2d(16), nn::ReLU(), convolution(16, 32), nn::BatchNorm2d(32), nn::ReLU(),
                        nn::MaxPool2d(2), convolution(32, 64), nn::BatchNorm2d(64), nn::ReLU(),
                        nn::AdaptiveAvgPool2d(nn::AdaptiveAvgPool2dOptions({2, 2})), nn::Flatten(),
                        nn::Linear(256, 10));
}

double error_percent(nn::Sequential& net, const Split& test) {
  torch::NoGradGuard no_grad;
  net->eval();
  int64_t wrong = 0;
  for (int64_t at = 0; at < test.labels.size(0); at += 1000) {
    const auto guess = net->forward(test.images.slice(0, at, at + 1000)).argmax(1);
    wrong += guess.ne(test.labels.slice(0, at, at + 1000)).sum().item<int64_t>();
  }
  net->train();
  return 100.0 * static_cast<double>(wrong) / static_cast<double>(test.labels.size(0));
}

int run(int epochs, const std::string& folder) {
  const torch::Device device = torch::cuda::is_available() ? torch::kCUDA : torch::kCPU;
  torch::manual_seed(1);
  const auto train = read(folder, "train", device);
  const auto test = read(folder, "t10k", device);
  auto net = make_network();
  net->to(device);

  auto split = stiefel::split_parameters(*net);
  for (auto& weight : split.manifold) stiefel::init::haar_(weight);
  using Options = stiefel::CayleySGDOptions;
  const auto free = Options(0.05).momentum(0.9).nesterov(true).manifold(stiefel::Manifold::kEuclidean);
  stiefel::CayleySGD optimizer({{split.manifold}, {split.euclidean, free.clone()}},
                               Options(0.2).momentum(0.9));
  const stiefel::Schedule schedule(optimizer, stiefel::cosine(epochs));

  const bool on_terminal = isatty(fileno(stderr)) != 0;
  constexpr int64_t batch = 128;
  const int64_t steps = train.labels.size(0) / batch;
  std::printf("%zu weights on the Stiefel manifold, %zu free; %d epochs of %ld steps\n\n",
              split.manifold.size(), split.euclidean.size(), epochs, static_cast<long>(steps));
  std::printf("epoch     loss   test error    defect   seconds\n");
  for (int epoch = 0; epoch < epochs; ++epoch) {
    const auto start = std::chrono::steady_clock::now();
    const auto order = torch::randperm(train.labels.size(0), device);
    double total = 0;
    for (int64_t i = 0; i < steps; ++i) {
      schedule.apply(optimizer, epoch + static_cast<double>(i) / static_cast<double>(steps));
      const auto pick = order.slice(0, i * batch, (i + 1) * batch);
      optimizer.zero_grad();
      const auto loss = F::cross_entropy(net->forward(train.images.index_select(0, pick)),
                                         train.labels.index_select(0, pick));
      loss.backward();
      optimizer.step();
      total += loss.item<double>();
      if (on_terminal && i % 20 == 19) {
        std::fprintf(stderr, "\r%5d  %6.4f   step %ld of %ld ", epoch + 1, total / static_cast<double>(i + 1),
                     static_cast<long>(i + 1), static_cast<long>(steps));
      }
    }
    double worst = 0;
    for (const auto& weight : split.manifold) worst = std::max(worst, stiefel::defect(weight).item<double>());
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    if (on_terminal) std::fprintf(stderr, "\r%60s\r", "");
    std::printf("%5d   %6.4f      %5.2f %%   %.1e   %7.1f\n", epoch + 1, total / static_cast<double>(steps),
                error_percent(net, test), worst, seconds.count());
    std::fflush(stdout);
  }
  std::printf(
      "\nThe defect is the largest ||X^H X - I|| of the weights: they stay orthonormal to rounding.\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string usage = "usage: fashion_mnist [EPOCHS (default 5)] [FOLDER with the four IDX files]\n";
  int epochs = 5;
  std::string folder = "/usr/share/datasets/fashion-mnist";
  if (argc > 1) {
    const std::string first = argv[1];
    if (first == "-h" || first == "--help") return std::printf("%s", usage.c_str()), 0;
    try {
      epochs = std::stoi(first);
    } catch (const std::exception&) {
      epochs = 0;
    }
    if (epochs < 1 || argc > 3) return std::fprintf(stderr, "%s", usage.c_str()), 2;
  }
  if (argc > 2) folder = argv[2];
  if (!std::getenv("OMP_NUM_THREADS"))
    at::set_num_threads(static_cast<int>(std::thread::hardware_concurrency()));
  try {
    return run(epochs, folder);
  } catch (const c10::Error& error) {
    std::fprintf(stderr, "fashion_mnist: %s\n", error.what_without_backtrace());
  } catch (const std::exception& error) {
    std::fprintf(
        stderr,
        "fashion_mnist: %s\n(Debian's package dataset-fashion-mnist installs the data; ./dev demo does it)\n",
        error.what());
  }
  return 1;
}
