#include "noise.h"

#include <c10/util/accumulate.h>

#include <map>
#include <memory>

namespace stiefel::bench {

namespace {

constexpr int64_t kLength = 1 << 24;  // more than four times the largest weight of the networks
constexpr int64_t kAlignment = 16;    // floats in a cache line

}  // namespace

Noise::Noise(const at::Device& device) : values_(at::randn({kLength}, device)) {}

Noise& Noise::shared(const at::Device& device) {
  static std::map<c10::DeviceType, std::unique_ptr<Noise>> all;
  auto& noise = all[device.type()];
  if (!noise) noise.reset(new Noise(device));
  return *noise;
}

at::Tensor Noise::draw(at::IntArrayRef sizes) {
  const int64_t length = c10::multiply_integers(sizes);
  if (2 * length > values_.numel()) values_ = at::randn({4 * length}, values_.options());
  std::uniform_int_distribution<int64_t> place(0, (values_.numel() - length) / kAlignment);
  return values_.narrow(0, place(random_) * kAlignment, length).view(sizes);
}

}  // namespace stiefel::bench
