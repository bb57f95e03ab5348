#include "tests/soak/methods.h"

#include <cmath>

namespace soak {

namespace {

using stiefel::ManifoldOptimizer;

template <class Optimizer, class Options>
std::function<std::unique_ptr<ManifoldOptimizer>(const Weights&)> maker(const Options& options) {
  return [options](const Weights& weights) {
    auto stacked = options;
    stacked.batched(true);
    std::vector<torch::optim::OptimizerParamGroup> groups;
    groups.emplace_back(weights.matrices, options.clone());
    if (!weights.stacks.empty()) groups.emplace_back(weights.stacks, stacked.clone());
    return std::make_unique<Optimizer>(std::move(groups), options);
  };
}

// The library's promise in single precision. In double the CPU takes as much of the exit correction's series
// as shows.
constexpr Bound kCayley{5e-6, 1e-13};

template <class Retraction>
void add(std::vector<Method>& all, const std::string& name, Retraction retraction, Bound bound,
         Reach reach = Reach::kLimited) {
  using Options = stiefel::RetractionSGDOptions<Retraction>;
  for (const double momentum : {0.0, 0.9}) {
    auto options = Options(kRate);
    options.momentum(momentum).retraction(retraction);
    all.push_back({momentum == 0 ? name : name + ", momentum", momentum, reach, bound,
                   maker<stiefel::RetractionSGD<Retraction>>(options)});
  }
}

std::vector<Method> make_methods() {
  using stiefel::CayleyAdamOptions;
  using stiefel::CayleyMuonOptions;
  using stiefel::CayleySGDOptions;
  std::vector<Method> all;
  all.push_back({"Cayley SGD", 0.9, Reach::kAny, kCayley,
                 maker<stiefel::CayleySGD>(CayleySGDOptions(kRate).momentum(0.9))});
  all.push_back({"Cayley SGD, no momentum", 0, Reach::kAny, kCayley,
                 maker<stiefel::CayleySGD>(CayleySGDOptions(kRate).momentum(0))});
  all.push_back(
      {"Cayley ADAM", 0.9, Reach::kAny, kCayley, maker<stiefel::CayleyAdam>(CayleyAdamOptions(kRate))});
  all.push_back({"Cayley Muon", 0.9, Reach::kAny, kCayley,
                 maker<stiefel::CayleyMuon>(CayleyMuonOptions(kRate).momentum(0.9))});
  stiefel::Polar newton_schulz;
  newton_schulz.by = stiefel::Polar::By::kNewtonSchulz;
  stiefel::Qr cholesky;
  cholesky.by = stiefel::Qr::By::kCholesky;
  add(all, "polar", stiefel::Polar(), {5e-6, 1e-14});
  add(all, "polar, Newton-Schulz", newton_schulz, {5e-6, 1e-14});
  add(all, "QR", stiefel::Qr(), {5e-6, 1e-14});
  add(all, "QR, Cholesky", cholesky, {5e-6, 1e-14});
  add(all, "Wen-Yin", stiefel::WenYin(), {5e-6, 1e-14, 1});
  add(all, "closed Cayley", stiefel::CayleyClosed(), {5e-6, 1e-14, 1});
  add(all, "exact Cayley", stiefel::CayleyExact(), {5e-6, 1e-14});
  // E = −¾V² + ¼V³ after a step, V = l²ξᴴξ, and ξ is half the canonical gradient.
  add(all, "POGO", stiefel::Pogo(), {5e-6, 1e-14, 0, 0.75 * std::pow(kTurn, 4)});
  add(all, "landing", stiefel::Landing(), {0, 0, 0, stiefel::Landing().epsilon}, Reach::kAny);
  return all;
}

}  // namespace

double Bound::at(int64_t p, at::ScalarType type, int64_t steps) const {
  const bool wide = type == at::kDouble || type == at::kComplexDouble;
  const double roundoff = wide ? 0x1p-53 : 0x1p-24;
  const double root = std::sqrt(static_cast<double>(p));
  return apart + root * ((wide ? in_double : in_single) + per_step * roundoff * static_cast<double>(steps));
}

const std::vector<Method>& methods() {
  static const auto all = make_methods();
  return all;
}

}  // namespace soak
