#include "step_support.h"

// The step of many small matrices on a GPU, which stay on chip for it. small_step_kernels_test has the same
// kernels on the CPU.

namespace step_test {

class CudaSmallStep : public CudaStep {};

/// Stacks and single weights of sizes that have a kernel of their own, more weights of one shape than a
/// launch's parameters hold, tall ones, and two that are too large.
std::vector<Tensor> many_points() {
  std::vector<std::vector<int64_t>> shapes{{20, 64, 64},  {18, 128, 128}, {17, 100, 100}, {24, 16, 64},
                                           {30, 27, 16},  {16, 32, 128},  {17, 17, 33},   {19, 5, 5},
                                           {16, 64, 256}, {160, 144},     {2, 64, 576}};
  for (int i = 0; i < 40; ++i) shapes.push_back({16, 64});
  std::vector<Tensor> all;
  for (const auto& shape : shapes) {
    auto point = torch::empty(shape, at::kFloat);
    stiefel::init::haar_(point, true);
    all.push_back(point);
  }
  return all;
}

TEST_F(CudaSmallStep, FollowsTheStepInDouble) {
  for (const bool adam : {false, true}) {
    for (const double rate : {1e-3, 0.1, 10.0}) {
      const auto start = many_points();
      Side device(start, torch::kCUDA, at::kFloat, rate);
      for (int step = 0; step < 2; ++step) {
        std::vector<Tensor> now;
        for (const auto& x : device.x) now.push_back(x.cpu());
        Side reference(now, torch::kCPU, at::kDouble, rate);
        for (size_t i = 0; i < now.size(); ++i) {
          reference.m[i].copy_(device.m[i].cpu());
          reference.v[i].copy_(device.v[i].cpu());
          reference.k[i].copy_(device.k[i].cpu());
        }
        const auto g = gradients_like(start, 1);
        if (adam) {
          device.adam(g, mixed());
          reference.adam(g, {});
        } else {
          device.sgd(g, mixed());
          reference.sgd(g, {});
        }
        for (size_t i = 0; i < now.size(); ++i) {
          EXPECT_LT(miss(device.x[i], now[i], reference.x[i]), 3e-3) << start[i].sizes() << " rate " << rate;
          const auto m = reference.m[i];
          EXPECT_LT((device.m[i].cpu() - m).norm().item<double>(), 2e-3 * m.norm().item<double>() + 1e-12)
              << start[i].sizes();
          EXPECT_TRUE(device.v[i].cpu().allclose(reference.v[i], 1e-5)) << start[i].sizes();
          EXPECT_TRUE(device.k[i].cpu().equal(reference.k[i]));
        }
      }
      EXPECT_EQ(device.skipped.item<int64_t>(), 0);
    }
  }
}

TEST_F(CudaSmallStep, StaysOrthonormal) {
  for (const double normal_part : {0.0, 30.0}) {
    for (const auto& shape :
         {std::vector<int64_t>{100, 64, 64}, {50, 128, 128}, {200, 16, 64}, {50, 60, 120}}) {
      auto start = torch::empty(shape, at::kFloat);
      stiefel::init::haar_(start, true);
      start += torch::randn(shape) * 1e-4;
      Side device({start}, torch::kCUDA, at::kFloat, 0.2 / std::sqrt(2.0));
      double worst = 0;
      for (int step = 1; step <= 1000; ++step) {
        const auto options = device.x[0].options();
        auto g = torch::randn(shape, options) / std::sqrt(static_cast<double>(shape[1] * shape[2]));
        if (normal_part > 0) {
          auto a = torch::randn({shape[0], shape[1], shape[1]}, options);
          a = a + a.transpose(1, 2);
          g += torch::bmm(a * (normal_part / shape[1] / std::sqrt(2.0)), device.x[0]);
        }
        stiefel::cayley_sgd_(device.x, device.m, {g}, device.skipped, device.rate, 0.0, mixed(), true);
        if (step % 50 == 1) {
          const auto x = device.x[0].to(at::kDouble);
          const auto e = torch::bmm(x, x.transpose(1, 2)) - torch::eye(shape[1], x.options());
          worst = std::max(worst, e.flatten(1).norm(2, 1).max().item<double>());
        }
      }
      EXPECT_LT(worst, 1e-5) << shape;
      std::printf("  %d of %d×%d: ‖XᵀX − I‖_F ≤ %.1e over 1,000 steps\n", static_cast<int>(shape[0]),
                  static_cast<int>(shape[1]), static_cast<int>(shape[2]), worst);
    }
  }
}

TEST_F(CudaSmallStep, LeavesAMatrixWhoseGradientIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const auto start = many_points();
    Side device(start, torch::kCUDA, at::kFloat, 0.1);
    device.adam(gradients_like(start, 1), mixed());
    std::vector<Tensor> x, m;
    for (size_t i = 0; i < start.size(); ++i) {
      x.push_back(device.x[i].clone());
      m.push_back(device.m[i].clone());
    }
    auto g = gradients_like(start, 1);
    g[0][3][5][5] = bad;
    device.adam(g, mixed());
    EXPECT_EQ(device.skipped.item<int64_t>(), 1);
    EXPECT_TRUE(device.x[0][3].equal(x[0][3]) && device.m[0][3].equal(m[0][3]));
    EXPECT_EQ(device.k[0][3].item<double>(), 1);
    EXPECT_EQ(device.k[0][4].item<double>(), 2);
    for (size_t i = 1; i < start.size(); ++i) EXPECT_FALSE(device.x[i].equal(x[i])) << start[i].sizes();
    EXPECT_FALSE(device.x[0][2].equal(x[0][2]) || device.x[0][4].equal(x[0][4]));
    for (const auto& t : device.x) EXPECT_TRUE(t.isfinite().all().item<bool>());
  }
}

TEST_F(CudaSmallStep, RepeatsItselfBitForBitHoweverItLies) {
  const auto start = many_points();
  const auto g = gradients_like(start, 1);
  Side one(start, torch::kCUDA, at::kFloat, 0.1), other(start, torch::kCUDA, at::kFloat, 0.1);
  for (size_t i = 0; i < start.size(); ++i) {  // by columns
    if (start[i].dim() == 3) {
      other.x[i] = other.x[i].transpose(1, 2).contiguous().transpose(1, 2);
      other.m[i] = other.m[i].transpose(1, 2).contiguous().transpose(1, 2);
    }
  }
  for (int step = 0; step < 3; ++step) {
    one.sgd(g, mixed());
    other.sgd(g, mixed());
  }
  for (size_t i = 0; i < start.size(); ++i) {
    if (start[i].size(-1) <= 256 && start[i].size(-2) <= 128) {
      EXPECT_TRUE(one.x[i].equal(other.x[i])) << start[i].sizes();
    }
  }
}

#if STIEFEL_HAS_CUDA
TEST_F(CudaSmallStep, LivesInACudaGraph) {
  std::vector<Tensor> starts;
  for (const auto& point : many_points()) {
    if (point.dim() == 2) starts.push_back(point);
  }
  for (int i = 0; i < 20; ++i) {
    starts.push_back(torch::empty({64, 64}, at::kFloat));
    stiefel::init::haar_(starts.back());
  }
  expect_graph_equals_eager<stiefel::CayleyAdam>(stiefel::CayleyAdamOptions(0.1).precision(Precision::kMixed),
                                                 starts);
  expect_graph_equals_eager<stiefel::CayleySGD>(
      stiefel::CayleySGDOptions(0.1).momentum(0.9).precision(Precision::kMixed), starts);
}
#endif

}  // namespace step_test
