#pragma once

#include <stiefel/penalties.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <vector>

/// The penalties by their definitions, dense and in double, central differences of them, and the weights on
/// which the tests compare. It shares nothing with the library but the names of the penalties.
namespace penalty_reference {

using at::Tensor;
using stiefel::Penalty;

constexpr uint64_t kSeed = 7;

/// The matrices K (p×n, p ≤ n) of a weight in its logical order.
inline std::vector<Tensor> matrices(const Tensor& weight, bool batched) {
  const auto stack =
      batched ? weight.reshape({-1, weight.size(-2), weight.size(-1)}) : weight.flatten(1).unsqueeze(0);
  std::vector<Tensor> all;
  for (const auto& one : stack.unbind(0)) all.push_back(one.size(0) <= one.size(1) ? one : one.t());
  return all;
}

/// AAᴴ − I, by the definition.
inline Tensor gap(const Tensor& a) { return a.mm(a.mH()) - torch::eye(a.size(0), a.options()); }

inline double squares(const Tensor& a) { return a.abs().square().sum().item<double>(); }

/// SRIP's start vectors for the matrices of one shape, as the library draws them.
inline Tensor starts(int64_t count, int64_t p, at::ScalarType type, uint64_t seed = kSeed) {
  return torch::randn({count, p, 1}, at::detail::createCPUGenerator(seed), type);
}

/// The power iteration on a dense E.
inline double power_iteration(const Tensor& e, const Tensor& start, int64_t rounds) {
  auto v = start / std::sqrt(squares(start));
  double sigma = 0;
  for (int64_t i = 0; i < rounds; ++i) {
    const auto u = e.mm(v);
    sigma = std::sqrt(squares(u));
    v = u / sigma;
  }
  return sigma;
}

/// The sum of a penalty over matrices of one shape and type.
inline double expected(Penalty kind, const std::vector<Tensor>& all, int64_t rounds) {
  const auto count = static_cast<int64_t>(all.size());
  const auto v = starts(count, all[0].size(0), all[0].scalar_type());
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const auto& k = all[i];
    if (kind == Penalty::kSo) sum += squares(gap(k));
    if (kind == Penalty::kDso) sum += squares(gap(k)) + squares(gap(k.mH()));
    if (kind == Penalty::kSrip) sum += power_iteration(gap(k), v[i], rounds);
  }
  return sum;
}

inline double expected(Penalty kind, const Tensor& weight, bool batched, int64_t rounds) {
  return expected(kind, matrices(weight.detach(), batched), rounds);
}

/// ∂f/∂Re + i ∂f/∂Im of every entry by central differences, in the shape of the weight.
inline Tensor differences(const std::function<double(const Tensor&)>& f, const Tensor& weight,
                          double h = 1e-6) {
  auto point = weight.detach().clone(at::MemoryFormat::Contiguous);
  auto result = torch::zeros_like(point);
  auto moving = point.is_complex() ? at::view_as_real(point).view(-1) : point.view(-1);
  auto slopes = result.is_complex() ? at::view_as_real(result).view(-1) : result.view(-1);
  for (int64_t i = 0; i < moving.numel(); ++i) {
    const double here = moving[i].item<double>();
    moving[i] = here + h;
    const double above = f(point);
    moving[i] = here - h;
    const double below = f(point);
    moving[i] = here;
    slopes[i] = (above - below) / (2 * h);
  }
  return result;
}

struct Shape {
  const char* name;
  std::vector<int64_t> sizes;
  bool batched;
  enum Layout { kPlain, kChannelsLast, kStrided } layout;
};

inline const std::vector<Shape> kShapes = {
    {"wide", {3, 7}, false, Shape::kPlain},
    {"tall", {6, 2}, false, Shape::kPlain},
    {"square", {4, 4}, false, Shape::kPlain},
    {"row", {1, 5}, false, Shape::kPlain},
    {"column", {5, 1}, false, Shape::kPlain},
    {"convolution", {4, 3, 2, 2}, false, Shape::kPlain},
    {"tall convolution", {9, 1, 2, 2}, false, Shape::kPlain},
    {"channels-last", {4, 3, 2, 2}, false, Shape::kChannelsLast},
    {"tall channels-last", {13, 3, 2, 2}, false, Shape::kChannelsLast},
    {"strided", {3, 6}, false, Shape::kStrided},
    {"strided convolution", {4, 3, 2, 2}, false, Shape::kStrided},
    {"stack", {2, 2, 3, 4}, true, Shape::kPlain},
    {"stack of tall", {3, 5, 2}, true, Shape::kPlain},
    {"strided stack", {2, 3, 2, 4}, true, Shape::kStrided},
};

inline Tensor weight_of(const Shape& shape, at::ScalarType type) {
  if (shape.layout == Shape::kStrided) {
    auto sizes = shape.sizes;
    for (auto& size : sizes) size *= 2;
    auto part = torch::randn(sizes, type);
    for (size_t d = 0; d < sizes.size(); ++d) part = part.slice(static_cast<int64_t>(d), 1, sizes[d], 2);
    return part.mul_(0.7);
  }
  auto weight = torch::randn(shape.sizes, type) * 0.7;
  return shape.layout == Shape::kChannelsLast ? weight.contiguous(at::MemoryFormat::ChannelsLast) : weight;
}

/// A weight with its dimensions in the order in which the library reads them: a channels-last one in the
/// order of its memory. Only SRIP can tell, and only on the columns of a tall matrix: its start vector has an
/// order.
inline Tensor in_reading_order(const Tensor& weight, const Shape& shape) {
  return shape.layout == Shape::kChannelsLast ? weight.permute({0, 2, 3, 1}) : weight;
}

inline const std::vector<Penalty> kKinds = {Penalty::kSo, Penalty::kDso, Penalty::kSrip};
inline const std::vector<at::ScalarType> kTypes = {at::kDouble, at::kComplexDouble};

inline double scalar_product(const Tensor& a, const Tensor& b) { return (a * b).sum().item<double>(); }

inline double relative(const Tensor& a, const Tensor& b) {
  return std::sqrt(squares(a.detach() - b.detach())) / (1e-12 + std::sqrt(squares(b)));
}

}  // namespace penalty_reference
