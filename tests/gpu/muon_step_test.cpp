#include "step_support.h"

// Cayley Muon's step in mixed precision on a GPU. mixed_step_coefficients_test compares its kernels with the
// step in double for the very K that they found; here it is the whole step, whose K of half-precision Gram
// matrices differs a little from that of double ones.

namespace step_test {

using stiefel::MuonTerms;

class CudaMuonStep : public CudaStep {};

/// One step from the same place in double on the CPU: where it leads to.
Side reference_of(const Side& device, const std::vector<Tensor>& gradients, const MuonTerms& terms) {
  std::vector<Tensor> now;
  for (const auto& x : device.x) now.push_back(x.cpu());
  Side reference(now, torch::kCPU, at::kDouble, device.rate.item<double>());
  for (size_t i = 0; i < now.size(); ++i) reference.m[i].copy_(device.m[i].cpu());
  reference.muon(gradients, terms, {});
  return reference;
}

/// The cosine of the angle between two displacements, and the ratio of their lengths.
struct Likeness {
  double cosine, ratio;

  Likeness(const Tensor& from, const Tensor& to, const Tensor& reference) {
    const auto a = to.cpu().to(at::kDouble) - from.to(at::kDouble), b = reference - from.to(at::kDouble);
    const double of_a = a.norm().item<double>(), of_b = b.norm().item<double>();
    cosine = (a * b).sum().item<double>() / (of_a * of_b);
    ratio = of_a / of_b;
  }
};

TEST_F(CudaMuonStep, FollowsTheStepInDouble) {
  for (const int64_t rounds : {1, 2}) {
    for (const double rate : {1e-3, 0.01, 0.1}) {
      MuonTerms terms;
      terms.polar.rounds = rounds;
      const auto start = points();
      Side device(start, torch::kCUDA, at::kFloat, rate);
      for (int step = 0; step < 3; ++step) {
        std::vector<Tensor> before;
        for (const auto& x : device.x) before.push_back(x.cpu());
        const auto g = gradients_like(start, 0.3);
        const auto reference = reference_of(device, g, terms);
        device.muon(g, terms, mixed());
        for (size_t i = 0; i < start.size(); ++i) {
          const Likeness likeness(before[i], device.x[i], reference.x[i]);
          // The largest singular values end within 15 % of 1, and the kernels' quintics are a little others.
          EXPECT_GT(likeness.cosine, 0.985) << start[i].sizes() << " rate " << rate << " rounds " << rounds;
          EXPECT_NEAR(likeness.ratio, 1, 0.3) << start[i].sizes() << " rate " << rate << " rounds " << rounds;
          const auto& m = reference.m[i];
          EXPECT_LT((device.m[i].cpu() - m).norm().item<double>(), 2e-3 * m.norm().item<double>() + 1e-12)
              << start[i].sizes();
        }
      }
      EXPECT_EQ(device.skipped.item<int64_t>(), 0);
    }
  }
}

TEST_F(CudaMuonStep, StaysOrthonormalForManySteps) {
  for (const auto& shape : {std::vector<int64_t>{640, 5760}, {64, 576}, {144, 160}, {64, 64}}) {
    for (const double rate : {0.01, 0.05}) {
      auto start = torch::empty(shape, at::kFloat);
      stiefel::init::haar_(start);
      Side device({start}, torch::kCUDA, at::kFloat, rate);
      // Singular values that reach over three orders of magnitude, and gradients whose length changes.
      const auto spectrum =
          torch::logspace(0, -3, shape[0], 10.0, at::TensorOptions(at::kFloat).device(torch::kCUDA))
              .unsqueeze(1);
      double worst = 0;
      for (int step = 1; step <= 3000; ++step) {
        const auto g = torch::randn(shape, spectrum.options()) * spectrum * std::pow(10.0, step % 7 - 3);
        stiefel::cayley_muon_(device.x, device.m, {g}, device.skipped, device.rate, {}, mixed());
        if (step % 300 == 0) worst = std::max(worst, support::defect(device.x[0]));
      }
      std::printf("  %4d×%d at %.2f: ‖XᵀX − I‖_F ≤ %.1e over 3,000 steps\n", static_cast<int>(shape[0]),
                  static_cast<int>(shape[1]), rate, worst);
      // In proportion to α‖W‖_F, as for Cayley SGD.
      EXPECT_LT(worst, 4e-6 + 4.5e-4 * rate * std::sqrt(2.0 * shape[0] * shape[0] / shape[1])) << shape;
    }
  }
}

TEST_F(CudaMuonStep, TakesOffALargeNormalPart) {
  auto start = torch::empty({64, 576}, at::kFloat);
  stiefel::init::haar_(start);
  Side device({start}, torch::kCUDA, at::kFloat, 0.01);
  for (int step = 0; step < 200; ++step) {
    const auto options = device.x[0].options();
    auto normal = torch::randn({64, 64}, options);
    normal = normal + normal.t();
    normal = torch::mm(normal * (30 / normal.norm()), device.x[0]);  // thirty times the rest
    const auto g = normal + torch::randn({64, 576}, options) / std::sqrt(64.0 * 576);
    stiefel::cayley_muon_(device.x, device.m, {g}, device.skipped, device.rate, {}, mixed());
  }
  EXPECT_LT(support::defect(device.x[0]), 4e-5);
}

TEST_F(CudaMuonStep, StandsStillWhereNothingPulls) {
  const auto start = points();
  Side device(start, torch::kCUDA, at::kFloat, 0);
  device.muon(gradients_like(start, 1), {}, mixed());
  for (size_t i = 0; i < start.size(); ++i) EXPECT_LT(support::distance(device.x[i].cpu(), start[i]), 1e-6);
  device.rate.fill_(0.1);
  for (auto& m : device.m) m.zero_();
  std::vector<Tensor> nothing, normal;
  for (const auto& x : start) nothing.push_back(torch::zeros_like(x));
  device.muon(nothing, {}, mixed());
  for (size_t i = 0; i < start.size(); ++i) EXPECT_LT(support::distance(device.x[i].cpu(), start[i]), 1e-6);
  // A gradient along X itself has no tangent part: what the projection leaves of it is rounding.
  for (const auto& x : start) normal.push_back(x * 3);
  device.muon(normal, {}, mixed());
  for (size_t i = 0; i < start.size(); ++i) EXPECT_LT(support::distance(device.x[i].cpu(), start[i]), 1e-5);
}

TEST_F(CudaMuonStep, TakesGradientsOfLowRankAndAnySize) {
  for (const double size : {1e-10, 1e-5, 1.0, 1e5, 1e10}) {
    const auto start = points();
    Side device(start, torch::kCUDA, at::kFloat, 0.02);
    for (int step = 0; step < 20; ++step) {
      std::vector<Tensor> g;
      for (const auto& x : start) {
        const auto left = torch::randn({x.size(-2), 1}), right = torch::randn({1, x.size(-1)});
        g.push_back((left.mm(right) * size).expand(x.sizes()).contiguous());
      }
      device.muon(g, {}, mixed());
    }
    EXPECT_EQ(device.skipped.item<int64_t>(), 0) << size;
    for (size_t i = 0; i < start.size(); ++i) {
      const auto tall = start[i].size(-2) > start[i].size(-1);
      const auto x = tall ? device.x[i].mT() : device.x[i];
      const auto gram = x.to(at::kDouble).matmul(x.to(at::kDouble).mT());
      const auto defect = (gram - torch::eye(gram.size(-1), gram.options())).norm().item<double>();
      EXPECT_LT(defect, 1e-4) << start[i].sizes() << " " << size;
      if (start[i].numel() > 1) {
        EXPECT_GT(support::distance(device.x[i].cpu(), start[i]), 1e-3) << start[i].sizes();
      }
    }
  }
}

TEST_F(CudaMuonStep, LeavesAMatrixWhoseGradientIsNotFinite) {
  const auto start = points();
  Side device(start, torch::kCUDA, at::kFloat, 0.1);
  device.muon(gradients_like(start, 1), {}, mixed());
  const auto x = device.x[3].clone(), m = device.m[3].clone(), other = device.x[4].clone();
  auto g = gradients_like(start, 1);
  g[3].view({-1})[77] = std::numeric_limits<float>::quiet_NaN();
  device.muon(g, {}, mixed());
  EXPECT_EQ(device.skipped.item<int64_t>(), 1);
  EXPECT_TRUE(device.x[3].equal(x) && device.m[3].equal(m));
  EXPECT_FALSE(device.x[4].equal(other));
  for (const auto& t : device.x) EXPECT_TRUE(t.isfinite().all().item<bool>());
}

TEST_F(CudaMuonStep, RepeatsItselfBitForBit) {
  const auto start = points();
  const auto g = gradients_like(start, 1);
  Side first(start, torch::kCUDA, at::kFloat, 0.05), second(start, torch::kCUDA, at::kFloat, 0.05);
  for (int step = 0; step < 3; ++step) {
    first.muon(g, {}, mixed());
    second.muon(g, {}, mixed());
  }
  for (size_t i = 0; i < start.size(); ++i) EXPECT_TRUE(first.x[i].equal(second.x[i])) << start[i].sizes();
}

TEST_F(CudaMuonStep, OtherFormsOfTheStepStayFull) {
  const auto start = points();
  const auto g = gradients_like(start, 1);
  for (const auto& change :
       std::vector<void (*)(MuonTerms&)>{[](MuonTerms& terms) { terms.nesterov = true; },
                                         [](MuonTerms& terms) { terms.polar.exact_root = true; },
                                         [](MuonTerms& terms) { terms.polar.rounds = 3; }}) {
    MuonTerms terms;
    change(terms);
    Side as_mixed(start, torch::kCUDA, at::kFloat, 0.05), as_full(start, torch::kCUDA, at::kFloat, 0.05);
    as_mixed.muon(g, terms, mixed());
    as_full.muon(g, terms, {});
    for (size_t i = 0; i < start.size(); ++i) EXPECT_TRUE(as_mixed.x[i].equal(as_full.x[i]));
  }
}

TEST_F(CudaMuonStep, ScalesTheRateByTheShape) {
  const auto start = points();
  const auto g = gradients_like(start, 1);
  MuonTerms scaled;
  scaled.scale = stiefel::MuonScale::kRms;
  for (size_t i = 0; i < start.size(); ++i) {
    const auto n = static_cast<double>(std::max(start[i].size(-1), start[i].size(-2)));
    Side by_shape({start[i]}, torch::kCUDA, at::kFloat, 1e-3);
    Side by_hand({start[i]}, torch::kCUDA, at::kFloat, 1e-3 * 0.2 * std::sqrt(n));
    by_shape.muon({g[i]}, scaled, mixed());
    by_hand.muon({g[i]}, {}, mixed());
    EXPECT_LT(support::distance(by_shape.x[0], by_hand.x[0]), 1e-6) << start[i].sizes();
  }
}

#if STIEFEL_HAS_CUDA
TEST_F(CudaMuonStep, LivesInACudaGraph) {
  expect_graph_equals_eager<stiefel::CayleyMuon>(
      stiefel::CayleyMuonOptions(0.02).precision(Precision::kMixed));
}
#endif

}  // namespace step_test
