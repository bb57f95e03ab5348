#include "step_support.h"

#include <thread>

#if STIEFEL_HAS_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#endif

// The step in mixed precision on a GPU, against the same step in double on the CPU, and for what it promises:
// orthonormality to 4e-5 for good, matrices of any shapes together, the same bits every time, and a life
// inside a CUDA graph.

namespace step_test {

TEST_F(CudaStep, FollowsTheStepInDouble) {
  for (const bool adam : {false, true}) {
    for (const double rate : {1e-3, 0.02, 0.1, 0.3}) {
      const auto start = points();
      Side device(start, torch::kCUDA, at::kFloat, rate);
      for (int step = 0; step < 3; ++step) {
        // The reference sets out anew from where the device stands, so errors do not add up.
        std::vector<Tensor> now;
        for (const auto& x : device.x) now.push_back(x.cpu());
        Side reference(now, torch::kCPU, at::kDouble, rate);
        for (size_t i = 0; i < now.size(); ++i) {
          reference.m[i].copy_(device.m[i].cpu());
          reference.v[i].copy_(device.v[i].cpu());
          reference.k[i].copy_(device.k[i].cpu());
        }
        const auto g = gradients_like(start, adam ? 1 : 0.3);
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

TEST_F(CudaStep, StaysOrthonormalForTenThousandSteps) {
  for (const auto& shape : {std::vector<int64_t>{640, 5760}, {64, 576}, {144, 160}}) {
    auto start = torch::empty(shape, at::kFloat);
    stiefel::init::haar_(start);
    // Fresh gradients of length 1: ‖W‖_F is at most √2, so α‖W‖_F is just under 0.2.
    Side device({start}, torch::kCUDA, at::kFloat, 0.2 / std::sqrt(2.0));
    double worst = 0;
    for (int step = 1; step <= 10000; ++step) {
      const auto g = torch::randn(shape, at::TensorOptions(at::kFloat).device(torch::kCUDA)) /
                     std::sqrt(static_cast<double>(shape[0] * shape[1]));
      stiefel::cayley_sgd_(device.x, device.m, {g}, device.skipped, device.rate, 0.0, mixed());
      if (step % 500 == 0) worst = std::max(worst, support::defect(device.x[0]));
    }
    EXPECT_LT(worst, 4e-5) << shape;
    std::printf("  %4d×%d: ‖XᵀX − I‖_F ≤ %.1e over 10,000 steps\n", static_cast<int>(shape[0]),
                static_cast<int>(shape[1]), worst);
  }
}

TEST_F(CudaStep, TakesOffALargeNormalPart) {
  auto start = torch::empty({64, 576}, at::kFloat);
  stiefel::init::haar_(start);
  Side device({start}, torch::kCUDA, at::kFloat, 0.14 / std::sqrt(2.0));
  for (int step = 0; step < 200; ++step) {
    const auto options = device.x[0].options();
    auto normal = torch::randn({64, 64}, options);
    normal = normal + normal.t();
    normal = torch::mm(normal * (30 / normal.norm()), device.x[0]);  // thirty times the rest
    const auto g = normal + torch::randn({64, 576}, options) / std::sqrt(64.0 * 576);
    stiefel::cayley_sgd_(device.x, device.m, {g}, device.skipped, device.rate, 0.0, mixed());
  }
  EXPECT_LT(support::defect(device.x[0]), 4e-5);
}

TEST_F(CudaStep, DrawsInAStartOffTheManifold) {
  auto start = torch::empty({48, 300}, at::kFloat);
  stiefel::init::haar_(start);
  start += torch::randn({48, 300}) * 5e-4;
  ASSERT_GT(support::defect(start), 1e-2);
  Side device({start}, torch::kCUDA, at::kFloat, 0.05);
  for (int step = 0; step < 4; ++step) device.sgd(gradients_like({start}, 1), mixed());
  EXPECT_LT(support::defect(device.x[0]), 2e-5);
}

TEST_F(CudaStep, StandsStillWhereTheRateIsZeroOrNothingPulls) {
  const auto start = points();
  Side device(start, torch::kCUDA, at::kFloat, 0);
  device.sgd(gradients_like(start, 1), mixed());
  for (size_t i = 0; i < start.size(); ++i) EXPECT_LT(support::distance(device.x[i].cpu(), start[i]), 1e-6);
  device.rate.fill_(0.1);
  for (auto& m : device.m) m.zero_();
  std::vector<Tensor> nothing;
  for (const auto& x : start) nothing.push_back(torch::zeros_like(x));
  device.sgd(nothing, mixed());
  for (size_t i = 0; i < start.size(); ++i) EXPECT_LT(support::distance(device.x[i].cpu(), start[i]), 1e-6);
}

TEST_F(CudaStep, LeavesAMatrixWhoseGradientIsNotFinite) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(), 1e30f}) {
    const auto start = points();
    Side device(start, torch::kCUDA, at::kFloat, 0.1);
    device.adam(gradients_like(start, 1), mixed());
    const auto keep = [](const std::vector<Tensor>& list) {
      std::vector<Tensor> copies;
      for (const auto& t : list) copies.push_back(t.clone());
      return copies;
    };
    const auto x = keep(device.x), m = keep(device.m), v = keep(device.v), k = keep(device.k);
    auto g = gradients_like(start, 1);
    g[3].view({-1})[77] = bad;
    g[2][1][5][5] = bad;  // the second of three
    device.adam(g, mixed());
    EXPECT_EQ(device.skipped.item<int64_t>(), 2);
    EXPECT_TRUE(device.x[3].equal(x[3]) && device.m[3].equal(m[3]) && device.v[3].equal(v[3]) &&
                device.k[3].equal(k[3]));
    EXPECT_TRUE(device.x[2][1].equal(x[2][1]) && device.m[2][1].equal(m[2][1]));
    EXPECT_EQ(device.k[2][1].item<double>(), 1);
    EXPECT_FALSE(device.x[2][0].equal(x[2][0]));
    EXPECT_EQ(device.k[2][0].item<double>(), 2);
    EXPECT_FALSE(device.x[4].equal(x[4]));
    for (const auto& t : device.x) EXPECT_TRUE(t.isfinite().all().item<bool>());
  }
}

TEST_F(CudaStep, RepeatsItselfBitForBitAloneAndInCompany) {
  const auto start = points();
  const auto g = gradients_like(start, 1);
  Side together(start, torch::kCUDA, at::kFloat, 0.1);
  Side again(start, torch::kCUDA, at::kFloat, 0.1);
  for (int step = 0; step < 3; ++step) {
    together.sgd(g, mixed());
    again.sgd(g, mixed());
  }
  for (size_t i = 0; i < start.size(); ++i) {
    EXPECT_TRUE(together.x[i].equal(again.x[i])) << start[i].sizes();
    Side alone({start[i]}, torch::kCUDA, at::kFloat, 0.1);
    for (int step = 0; step < 3; ++step) alone.sgd({g[i]}, mixed());
    // How the inner dimension is cut depends on the company, so the sums may differ in their last bits; and a
    // small matrix alone is stepped by a kernel of its own.
    EXPECT_LT(support::distance(together.x[i], alone.x[0]), 2e-4) << start[i].sizes();
  }
}

TEST_F(CudaStep, ReadsChannelsLastWeightsAndTheirMastersInPlace) {
  std::vector<Tensor> weights;
  for (const auto& shape : {std::vector<int64_t>{32, 16, 3, 3}, {64, 16, 1, 1}}) {
    auto weight = support::point(shape, at::kFloat)
                      .detach()
                      .to(torch::kCUDA)
                      .contiguous(at::MemoryFormat::ChannelsLast);
    weights.push_back(weight.requires_grad_());
  }
  weights.push_back(weights[0].detach().to(at::kBFloat16).requires_grad_());
  stiefel::CayleyAdam optimizer(weights, stiefel::CayleyAdamOptions(0.05).precision(Precision::kMixed));
  for (int step = 0; step < 50; ++step) {
    for (auto& weight : weights) weight.mutable_grad() = torch::randn_like(weight);
    optimizer.step();
  }
  EXPECT_LT(support::defect(weights[0]), 4e-5);
  EXPECT_LT(support::defect(weights[1]), 4e-5);
  EXPECT_LT(support::defect(weights[2].to(at::kFloat)), 2e-2);  // the rounding of its master
  EXPECT_TRUE(weights[0].is_contiguous(at::MemoryFormat::ChannelsLast));
}

TEST_F(CudaStep, OtherFormsOfTheStepStayFull) {
  const auto start = points();
  const auto g = gradients_like(start, 1);
  for (const auto& change : std::vector<void (*)(CayleyOptions&)>{
           [](CayleyOptions& o) { o.exact = true; }, [](CayleyOptions& o) { o.polish = false; },
           [](CayleyOptions& o) { o.iterations = 5; },
           [](CayleyOptions& o) { o.norm = stiefel::Norm::kSpectral; }}) {
    auto options = mixed();
    change(options);
    Side as_mixed(start, torch::kCUDA, at::kFloat, 0.1);
    as_mixed.sgd(g, options);
    options.precision = Precision::kFull;
    Side as_full(start, torch::kCUDA, at::kFloat, 0.1);
    as_full.sgd(g, options);
    for (size_t i = 0; i < start.size(); ++i) EXPECT_TRUE(as_mixed.x[i].equal(as_full.x[i]));
  }
}

TEST_F(CudaStep, RefusesWhatItCannotRead) {
  const auto start = points();
  Side device(start, torch::kCUDA, at::kFloat, 0.1);
  auto g = gradients_like(device.x, 1);
  for (auto& t : g) t = t.to(torch::kCUDA);
  auto wrong = g;
  wrong[0] = wrong[0].to(at::kDouble);
  EXPECT_ERROR(
      stiefel::cayley_sgd_(device.x, device.m, wrong, device.skipped, device.rate, 0.9, mixed(), true),
      "gradient");
  EXPECT_ERROR(stiefel::cayley_sgd_(device.x, device.m, g, device.skipped, device.rate.to(at::kLong), 0.9,
                                    mixed(), true),
               "rate");
  wrong.pop_back();
  EXPECT_ERROR(
      stiefel::cayley_sgd_(device.x, device.m, wrong, device.skipped, device.rate, 0.9, mixed(), true),
      "points");
}

TEST_F(CudaStep, LeavesAMatrixOffTheManifoldAndTellsAtTheNextLook) {
  for (const auto precision : {Precision::kMixed, Precision::kFull}) {
    std::vector<Tensor> weights;
    for (const auto& start : points()) {
      if (start.dim() == 2)
        weights.push_back(start.to(torch::kCUDA, at::kFloat, false, true).requires_grad_());
    }
    stiefel::CayleyAdam optimizer(weights, stiefel::CayleyAdamOptions(0.1).precision(precision));
    const auto step = [&] {
      for (auto& weight : weights) weight.mutable_grad() = torch::randn_like(weight);
      optimizer.step();
    };
    step();
    weights[1].detach().mul_(5);
    weights[3].detach()[1].copy_(weights[3].detach()[0]);  // rows of unit length, and not orthogonal
    std::vector<Tensor> before;
    for (const auto& weight : weights) before.push_back(weight.detach().clone());
    step();
    EXPECT_ERROR(optimizer.skipped_steps(), "2 matrices were left in place");
    EXPECT_EQ(optimizer.skipped_steps(), 2);
    for (size_t i = 0; i < weights.size(); ++i) {
      EXPECT_EQ(weights[i].equal(before[i]), i == 1 || i == 3) << i << " " << to_string(precision);
    }
  }
}

TEST_F(CudaStep, CayleyMuonIsTheCpusInDouble) {
  for (const auto& shape : {std::vector<int64_t>{16, 40}, {24, 24}, {40, 12}, {8, 4, 3, 3}}) {
    const auto start = support::point(shape).detach();
    std::vector<Tensor> sides{start.clone().requires_grad_(), start.to(torch::kCUDA).requires_grad_()};
    std::vector<std::unique_ptr<stiefel::CayleyMuon>> optimizers;
    for (const auto& side : sides) {
      optimizers.push_back(
          std::make_unique<stiefel::CayleyMuon>(std::vector<Tensor>{side}, stiefel::CayleyMuonOptions(0.05)));
    }
    for (int step = 0; step < 20; ++step) {
      const auto g = torch::randn_like(start) * std::pow(10, step % 5 - 2);
      for (size_t i = 0; i < sides.size(); ++i) {
        sides[i].mutable_grad() = g.to(sides[i].device());
        optimizers[i]->step();
      }
    }
    EXPECT_LT(support::distance(sides[0], sides[1].cpu()), 1e-10);
    EXPECT_LT(support::defect(sides[1].detach()), 1e-13);
  }
}

TEST_F(CudaStep, ReadsAConvolutionsWeightAsOneMatrix) {
  const auto start = support::point({32, 16, 3, 3}, at::kFloat).detach();
  const auto g = torch::randn_like(start);
  Side flat({start.flatten(1)}, torch::kCUDA, at::kFloat, 0.1);
  flat.sgd({g.flatten(1)}, mixed());
  for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    const auto x = start.to(torch::kCUDA).contiguous(format), m = torch::zeros_like(x);
    stiefel::cayley_sgd_({x}, {m}, {g.to(torch::kCUDA).contiguous(format)}, flat.skipped, flat.rate, 0.9,
                         mixed());
    EXPECT_LT(support::distance(x.flatten(1), flat.x[0]), 1e-5);
  }
}

#if STIEFEL_HAS_CUDA
TEST_F(CudaStep, TakesSeveralThreadsAndStreamsAtOnce) {
  // The plan of these shapes is made by whoever comes first; workspaces are each stream's own.
  constexpr size_t kThreads = 4;
  std::vector<Tensor> starts;
  for (const auto& shape : {std::vector<int64_t>{1, 70, 1400}, {3, 64, 576}, {1, 128, 128}}) {
    starts.push_back(support::point(shape, at::kFloat, true).detach());
  }
  std::vector<Tensor> gradients;
  for (const auto& start : starts) gradients.push_back(torch::randn_like(start));
  std::vector<Side> sides;
  for (size_t i = 0; i <= kThreads; ++i) sides.emplace_back(starts, torch::kCUDA, at::kFloat, 0.01);
  const auto run = [&](Side& side) {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromPool());
    for (int step = 0; step < 50; ++step) side.sgd(gradients, mixed());
    c10::cuda::getCurrentCUDAStream().synchronize();
  };
  torch::cuda::synchronize();
  std::vector<std::thread> threads;
  for (size_t i = 0; i < kThreads; ++i) threads.emplace_back([&, i] { run(sides[i]); });
  for (auto& thread : threads) thread.join();
  run(sides[kThreads]);
  for (size_t i = 0; i < kThreads; ++i) {
    for (size_t x = 0; x < starts.size(); ++x) {
      EXPECT_TRUE(torch::equal(sides[i].x[x], sides[kThreads].x[x])) << "thread " << i << ", weight " << x;
    }
  }
}

TEST_F(CudaStep, LivesInACudaGraph) {
  for (const auto precision : {Precision::kMixed, Precision::kFull}) {
    SCOPED_TRACE(to_string(precision));
    expect_graph_equals_eager<stiefel::CayleyAdam>(stiefel::CayleyAdamOptions(0.1).precision(precision));
  }
}

/// A step that has a Euclidean group beside the manifold's, captured, against the same step taken eagerly.
template <class Optimizer, class Options>
void expect_euclidean_groups_in_a_graph(const Options& options) {
  struct Copy {
    std::vector<Tensor> matrices, rest;
    std::unique_ptr<Optimizer> optimizer;
  };
  std::vector<Copy> copies(2);
  const auto matrix = support::point({16, 40}, at::kFloat).detach().to(torch::kCUDA);
  const auto vector = torch::randn({7}, at::TensorOptions(at::kFloat).device(torch::kCUDA));
  for (auto& copy : copies) {
    copy.matrices = {matrix.clone().requires_grad_()};
    copy.rest = {vector.clone().requires_grad_()};
    auto free = options;
    free.manifold(stiefel::Manifold::kEuclidean).weight_decay(0.01);
    copy.optimizer = std::make_unique<Optimizer>(
        std::vector<torch::optim::OptimizerParamGroup>{{copy.matrices}, {copy.rest, free.clone()}}, options);
    for (const auto& t : {copy.matrices[0], copy.rest[0]}) t.mutable_grad() = torch::zeros_like(t);
  }
  const auto set_gradients = [&] {
    for (const bool rest : {false, true}) {
      const auto g = torch::randn_like(rest ? vector : matrix);
      for (auto& copy : copies) (rest ? copy.rest : copy.matrices)[0].mutable_grad().copy_(g);
    }
  };
  const auto set_rate = [&](double rate) {
    for (auto& copy : copies) {
      for (auto& group : copy.optimizer->param_groups()) group.options().set_lr(rate);
    }
  };
  const auto stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  set_gradients();
  for (auto& copy : copies) copy.optimizer->step();
  stream.synchronize();
  at::cuda::CUDAGraph graph;
  graph.capture_begin();
  copies[0].optimizer->step();
  graph.capture_end();
  for (int step = 0; step < 5; ++step) {
    set_gradients();
    set_rate(0.1 / (2 + step));
    copies[0].optimizer->refresh_rates();
    graph.replay();
    copies[1].optimizer->step();
  }
  stream.synchronize();
  EXPECT_LT(support::distance(copies[0].matrices[0], copies[1].matrices[0]), 1e-6);
  EXPECT_LT(support::distance(copies[0].rest[0], copies[1].rest[0]), 1e-6);
}

TEST_F(CudaStep, EuclideanGroupsFollowAScheduleInAGraph) {
  expect_euclidean_groups_in_a_graph<stiefel::CayleySGD>(stiefel::CayleySGDOptions(0.1).momentum(0.9));
  expect_euclidean_groups_in_a_graph<stiefel::CayleyAdam>(stiefel::CayleyAdamOptions(0.1));
  expect_euclidean_groups_in_a_graph<stiefel::CayleyMuon>(stiefel::CayleyMuonOptions(0.1).nesterov(true));
  using Qr = stiefel::Qr;
  Qr cholesky;
  cholesky.by = Qr::By::kCholesky;
  expect_euclidean_groups_in_a_graph<stiefel::RetractionSGD<Qr>>(
      stiefel::RetractionSGDOptions<Qr>(0.1).momentum(0.9).retraction(cholesky));
}

TEST_F(CudaStep, ACaptureThatWouldFreezeARateIsRefused) {
  const auto weight = support::point({16, 40}, at::kFloat).detach().to(torch::kCUDA).requires_grad_();
  stiefel::CayleySGD optimizer({weight}, stiefel::CayleySGDOptions(0.1).momentum(0.9));
  weight.mutable_grad() = torch::randn_like(weight);
  const auto stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  const auto capture = [&] {
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    std::string message;
    try {
      optimizer.step();
    } catch (const c10::Error& error) {
      message = error.what_without_backtrace();
    }
    graph.capture_end();
    return message;
  };
  EXPECT_NE(capture().find("take one step before the capture"), std::string::npos);
  optimizer.step();
  optimizer.param_groups()[0].options().set_lr(0.05);
  EXPECT_NE(capture().find("refresh_rates()"), std::string::npos);
  optimizer.refresh_rates();
  EXPECT_EQ(capture(), "");
}
#endif

}  // namespace step_test
