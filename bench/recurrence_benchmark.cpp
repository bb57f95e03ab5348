// The uRNN's iteration: forward, backward and the optimiser's step of a unitary matrix at 784 pixels, batch
// 128, and the machine's own complex product beside it, in turns within one run.
//
//     recurrence_benchmark [HIDDEN…] [--rounds N] [--device cpu|cuda]

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "base/numbers.h"
#include "bench/start.h"
#include "bench/threads.h"
#include "models/recurrent_net.h"

namespace {

using stiefel::bench::seconds_of;

constexpr int64_t kSteps = 784;
constexpr int64_t kBatch = 128;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One optimiser on a unitary matrix of its own, with random gradients of the size that training shows.
struct Stepper {
  std::string name;
  at::Tensor k;
  std::unique_ptr<torch::optim::Optimizer> optimizer;

  double step() {
    k.mutable_grad() = torch::randn_like(k) * 1e-3;
    return seconds_of([this] { optimizer->step(); }, k.device());
  }
};

template <class Optimizer, class Options>
Stepper stepper(const char* name, int64_t n, const at::Device& device, const Options& options) {
  auto k = torch::empty({n, n}, at::TensorOptions(torch::kComplexFloat).device(device));
  stiefel::init::haar_(k);
  return {name, k, std::make_unique<Optimizer>(std::vector<at::Tensor>{k}, options)};
}

void measure(int64_t n, int64_t rounds, const at::Device& device) {
  using stiefel::CayleyAdam;
  using stiefel::CayleyClosed;
  using stiefel::CayleySGD;
  using stiefel::RetractionSGD;
  std::vector<Stepper> steppers;
  steppers.push_back(
      stepper<CayleySGD>("Cayley SGD", n, device, stiefel::CayleySGDOptions(0.01).momentum(0.9)));
  steppers.push_back(stepper<CayleyAdam>("Cayley ADAM", n, device, stiefel::CayleyAdamOptions(0.1)));
  steppers.push_back(stepper<RetractionSGD<CayleyClosed>>("closed form, n×n solve", n, device,
                                                          stiefel::RetractionSGDOptions<CayleyClosed>(0.01)));

  stiefel::models::RecurrentNet net(stiefel::models::RecurrentNet::Kind::kUnitary, n, {1, 10, false});
  net.to(device);
  const auto images = torch::rand({kBatch, kSteps, 1}, device);
  const auto labels = torch::randint(10, {kBatch}, at::TensorOptions(torch::kLong).device(device));
  const auto big = torch::randn({1024, 1024}, at::TensorOptions(torch::kComplexFloat).device(device));
  auto big_out = torch::empty_like(big);

  std::map<std::string, std::vector<double>> seconds;
  for (int64_t i = 0; i < rounds + 1; ++i) {
    at::Tensor loss;
    const double forward =
        seconds_of([&] { loss = torch::cross_entropy_loss(net.forward(images), labels); }, device);
    net.zero_grad();
    const double backward = seconds_of([&] { loss.backward(); }, device);
    const double product = seconds_of([&] { at::mm_out(big_out, big, big); }, device);
    if (i == 0) {
      for (auto& one : steppers) one.step();
      continue;  // to warm up
    }
    seconds["forward"].push_back(forward);
    seconds["backward"].push_back(backward);
    seconds["product"].push_back(product);
    for (auto& one : steppers) seconds[one.name].push_back(one.step());
  }

  const double forward = median(seconds["forward"]);
  const double backward = median(seconds["backward"]);
  const double units = static_cast<double>(n);
  const double flop = 8.0 * kSteps * kBatch * units * units;  // of a complex product a step
  const double rate = 8.0 * 1024 * 1024 * 1024 / median(seconds["product"]) / 1e9;
  const auto place = device.is_cpu() ? fmt::format("{} threads", at::get_num_threads()) : std::string("GPU");
  fmt::print("\nurnn-{}, {} steps, batch {}, {}, medians of {}\n", n, kSteps, kBatch, place, rounds);
  const auto line = [&](const char* name, double time, double work) {
    fmt::print("  {:24} {:8.1f} ms  {:6.1f} GFLOP/s  {:3.0f} % of a large complex product\n", name,
               1e3 * time, work / time / 1e9, 100 * work / time / 1e9 / rate);
  };
  line("forward", forward, flop);
  line("backward", backward, 2 * flop);
  line("both", forward + backward, 3 * flop);
  fmt::print("  {:24} {:8.1f} ms  {:6.1f} GFLOP/s\n", "1024³ complex product",
             1e3 * median(seconds["product"]), rate);
  for (const auto& one : steppers) {
    const double step = median(seconds[one.name]);
    fmt::print("  {:24} {:8.2f} ms  {:5.2f} % of the iteration\n", one.name, 1e3 * step,
               100 * step / (forward + backward + step));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int64_t rounds = 7;
  std::string device = "cpu";
  std::vector<int64_t> sizes;
  const auto positive = [](const std::string& word) {
    const auto value = stiefel::base::to_whole(word);
    if (value < 1) throw std::invalid_argument(word + " is not positive");
    return value;
  };
  try {
    for (int i = 1; i < argc; ++i) {
      if (std::strcmp(argv[i], "--rounds") == 0 && i + 1 < argc) {
        rounds = positive(argv[++i]);
      } else if (std::strcmp(argv[i], "--device") == 0 && i + 1 < argc) {
        device = argv[++i];
      } else {
        sizes.push_back(positive(argv[i]));
      }
    }
    stiefel::bench::set_threads(0);
  } catch (const std::invalid_argument& error) {
    fmt::print(stderr,
               "recurrence_benchmark: {}\nusage: recurrence_benchmark [HIDDEN…] [--rounds N] [--device "
               "cpu|cuda]\n",
               error.what());
    return 2;
  }
  if (sizes.empty()) sizes = {116, 512};
  for (const auto size : sizes) measure(size, rounds, at::Device(device));
}
