#include "workloads.h"

#include <initializer_list>

namespace stiefel::bench {

namespace {

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (const auto size : sizes) result *= size;
  return result;
}

Layer convolution(int64_t out, int64_t in, int64_t count = 1) { return {{out, in, 3, 3}, count}; }

/// The convolutions of Wide ResNet 28-10 for CIFAR that have as many inputs as outputs: not the first of the
/// first group (160 of 144) and not the 1×1 shortcuts.
Workload wide_resnet_28_10() {
  return {"wrn-28-10",
          "WRN-28-10",
          {convolution(16, 3), convolution(160, 160, 7), convolution(320, 160), convolution(320, 320, 7),
           convolution(640, 320), convolution(640, 640, 7)},
          true};
}

/// The convolutions of VGG-16 for CIFAR, less the first (64 of 27).
Workload vgg_16() {
  return {"vgg-16",
          "VGG-16",
          {convolution(64, 64), convolution(128, 64), convolution(128, 128), convolution(256, 128),
           convolution(256, 256, 2), convolution(512, 256), convolution(512, 512, 5)},
          true};
}

Workload matrix(int64_t p, int64_t n) {
  const auto name = std::to_string(p) + "x" + std::to_string(n);
  return {name, "one " + std::to_string(p) + "×" + std::to_string(n), {{{p, n}}}};
}

}  // namespace

int64_t Layer::n() const { return product(sizes) / (batched ? sizes[0] * sizes[1] : sizes[0]); }

int64_t Workload::weights() const {
  int64_t total = 0;
  for (const auto& layer : layers) total += product(layer.sizes) * layer.count;
  return total;
}

int64_t Workload::matrices() const {
  int64_t total = 0;
  for (const auto& layer : layers) total += layer.matrices();
  return total;
}

std::vector<Workload> workloads(bool quick) {
  std::vector<Workload> all;
  if (!quick) all = {wide_resnet_28_10(), vgg_16()};
  all.push_back(matrix(640, 5760));
  all.push_back(matrix(256, 2304));  // n = 9p, a 3×3 convolution that keeps its width
  if (!quick) all.push_back(matrix(64, 576));
  all.push_back(matrix(256, 1024));
  all.push_back(matrix(256, 512));
  for (const int64_t p : {128, 256, 512, 1024, 2048}) {
    if (!quick || p <= 512) all.push_back(matrix(p, p));
  }
  all.push_back({"4096-of-16x64", "4096 of 16×64, each a parameter", {{{16, 64}, 4096}}});
  all.push_back({"stack-of-4096-16x64", "4096 of 16×64, one stacked parameter", {{{4096, 16, 64}, 1, true}}});
  return all;
}

}  // namespace stiefel::bench
