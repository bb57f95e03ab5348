#include "tests/soak/hostile_gradients.h"

#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace soak {

namespace {

using at::Tensor;

constexpr int64_t kSegment = 20;
constexpr int64_t kKinds = 6;
constexpr int64_t kSizes = 25;  // 1e-12 … 1e12; no factor in common with kKinds
constexpr uint64_t kOneIn = 101;

/// SplitMix64.
uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t z = a + 0x9e3779b97f4a7c15 * (b + 1);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

at::ScalarType computing_type(at::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16 ? at::kFloat : type;
}

/// About 1 long.
Tensor unit_noise(at::IntArrayRef shape, at::ScalarType type, const at::Generator& generator) {
  return at::randn(shape, generator, at::TensorOptions(type))
      .div_(std::sqrt(double(c10::multiply_integers(shape))));
}

/// 300 ± ½ along the longer side of a matrix, which is not the orthonormal one.
Tensor eigenvalues_for(const Tensor& x) {
  const auto rows = x.size(-2), columns = x.size(-1);
  const auto values = torch::linspace(
      299.5, 300.5, std::max(rows, columns),
      x.scalar_type() == at::kDouble || x.scalar_type() == at::kComplexDouble ? at::kDouble : at::kFloat);
  return rows > columns ? values.unsqueeze(-1) : values;
}

}  // namespace

double HostileGradients::size_of(int64_t segment, at::ScalarType type) const {
  auto exponent = segment * 7 % kSizes - kSizes / 2;
  if (method_.reach == Reach::kAny) {
    // Half ends at 65504, and the largest of the kinds below is 300 times its size.
    if (type == at::kHalf) exponent = std::clamp<int64_t>(exponent, -4, 2);
    return std::pow(10.0, static_cast<double>(exponent));
  }
  if (exponent > 0) exponent -= kSizes / 2;
  if (type == at::kHalf) exponent = std::max<int64_t>(exponent, -3);
  // A momentum adds up to 1/(1 − β) gradients.
  return kTurn / kRate * (1 - method_.momentum) * std::pow(10.0, static_cast<double>(exponent));
}

Tensor HostileGradients::gradient_of(const Tensor& weight, int64_t step, uint64_t number) const {
  const auto segment = step / kSegment;
  const auto kind = segment % kKinds;
  const auto type = computing_type(weight.scalar_type());
  const auto x = weight.detach().to(type);
  const bool stays = kind == 5;
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(
      mix(mix(seed_, number), static_cast<uint64_t>(stays ? segment * kSegment : step)));
  // Of limited gradients the normal part is ten times kTurn at most.
  const bool any = method_.reach == Reach::kAny;
  const double length = std::sqrt(double(x.numel() / std::max(x.size(-2), x.size(-1))));  // ‖X‖_F
  const double size = size_of(segment, weight.scalar_type());
  switch (kind) {
    case 1:
      return unit_noise(x.sizes(), type, generator).add_(x, (any ? 30 : 3) / length).mul_(size);
    case 2: {
      auto left = x.sizes().vec(), right = left;
      left.back() = 1;
      right[right.size() - 2] = 1;
      return at::matmul(unit_noise(left, type, generator), unit_noise(right, type, generator)).mul_(size);
    }
    case 3:
      return torch::zeros_like(x);
    case 4:
      return (x * eigenvalues_for(x)).mul_(-size / (any ? length : 300 * length));
    default:
      return unit_noise(x.sizes(), type, generator).mul_(size);
  }
}

int64_t HostileGradients::set(const Weights& weights, int64_t step) const {
  const auto chance = mix(mix(seed_, 0xbad), static_cast<uint64_t>(step));
  const auto count = weights.matrices.size() + weights.stacks.size();
  const auto struck = chance % kOneIn == 0 ? chance / kOneIn % count : count;
  uint64_t number = 0;
  for (const auto* list : {&weights.matrices, &weights.stacks}) {
    for (const auto& weight : *list) {
      const auto gradient = gradient_of(weight, step, number);
      if (number++ == struck) {
        const double bad = chance % 2 == 0 ? NAN : std::numeric_limits<double>::infinity();
        const auto place = static_cast<int64_t>(chance >> 40) % gradient.numel();
        // Where there is an imaginary part, the real one stays finite.
        const auto numbers = gradient.is_complex() ? at::view_as_real(gradient) : gradient.unsqueeze(-1);
        numbers.view({gradient.numel(), -1}).select(0, place).select(0, -1).fill_(bad);
      }
      weight.mutable_grad() = gradient.to(weight.scalar_type());
    }
  }
  return struck < count ? 1 : 0;
}

}  // namespace soak
