#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <cmath>
#include <functional>
#include <memory>

// Problems whose answer linear algebra knows: the optimisers must find it, by autograd and closures as a user
// would.

namespace problems_test {

using at::Tensor;

const std::vector<at::ScalarType> kTypes{at::kDouble, at::kComplexDouble};

Tensor haar(at::IntArrayRef shape, at::ScalarType type) {
  auto weight = torch::empty(shape, type);
  return stiefel::init::haar_(weight);
}

Tensor real_part(const Tensor& t) { return t.is_complex() ? at::real(t) : t; }

/// Re tr AᴴB.
Tensor real_dot(const Tensor& a, const Tensor& b) { return real_part(a.conj() * b).sum(); }

Tensor with_spectrum(const Tensor& u, const Tensor& eigenvalues) {
  return at::matmul(u * eigenvalues, u.mH());
}

using Objective = std::function<Tensor(const Tensor&)>;

/// How to get there: both optimisers start at `rate` and lower it by `decay` each step. Cayley ADAM
/// normalises its gradient, so that without a decay it would never come to rest.
struct Plan {
  const char* name;
  bool adam;
  double rate;
  double decay;
  int64_t steps;
};

std::unique_ptr<stiefel::ManifoldOptimizer> make_optimizer(const Plan& plan, const Tensor& x) {
  if (plan.adam) {
    return std::make_unique<stiefel::CayleyAdam>(std::vector<Tensor>{x},
                                                 stiefel::CayleyAdamOptions(plan.rate));
  }
  auto options = stiefel::CayleySGDOptions(plan.rate).momentum(0.9);
  return std::make_unique<stiefel::CayleySGD>(std::vector<Tensor>{x}, options);
}

/// Minimises f from `start`, whose shape says how the weight lies: tall or wide.
Tensor minimize(const Plan& plan, const Tensor& start, const Objective& f) {
  auto x = start.clone().requires_grad_();
  auto optimizer = make_optimizer(plan, x);
  const stiefel::Schedule schedule(*optimizer, [&](double time) { return std::pow(plan.decay, time); });
  for (int64_t step = 0; step < plan.steps; ++step) {
    schedule.apply(*optimizer, static_cast<double>(step));
    optimizer->step([&] {
      optimizer->zero_grad();
      auto loss = f(x);
      loss.backward();
      return loss;
    });
  }
  EXPECT_LT(stiefel::defect(x.detach()).item<double>(), 1e-12) << plan.name;
  return x.detach();
}

double value(const Objective& f, const Tensor& x) { return f(x).item<double>(); }

/// f(x) has come down to `best` to 1e-8 of `scale`, from well above it, and not below it.
void expect_minimum(const Objective& f, const Tensor& start, const Tensor& x, double best, double scale,
                    const char* name) {
  EXPECT_GT((value(f, start) - best) / scale, 1e-3) << "the start is the answer";
  EXPECT_LT((value(f, x) - best) / scale, 1e-8) << name;
  EXPECT_GT((value(f, x) - best) / scale, -1e-12) << name << " is below the minimum";
}

TEST(Problems, PcaFindsTheLeadingEigenvectors) {
  const int64_t n = 30, p = 5;
  for (const auto type : kTypes) {
    const auto u = haar({n, n}, type);
    const auto a = with_spectrum(u, torch::linspace(1, 3, n, at::kDouble).square());
    const auto [eigenvalues, vectors] = at::linalg_eigh(a);
    const auto leading = vectors.narrow(1, n - p, p);
    const double best = -eigenvalues.narrow(0, n - p, p).sum().item<double>();
    // A row matrix x = Xᴴ, as a layer stores it.
    const Objective f = [&](const Tensor& x) { return real_dot(x, at::matmul(x, a)).neg(); };
    const auto start = haar({p, n}, type);
    for (const auto& plan :
         {Plan{"Cayley SGD", false, 0.02, 1, 500}, {"Cayley ADAM", true, 1, 0.999, 1500}}) {
      const auto x = minimize(plan, start, f);
      expect_minimum(f, start, x, best, -best, plan.name);
      const auto apart = at::matmul(x.mH(), x) - at::matmul(leading, leading.mH());
      EXPECT_LT(apart.abs().max().item<double>(), 1e-4) << plan.name;
    }
  }
}

TEST(Problems, BrockettFindsEachEigenvector) {
  // Re tr XᴴAXN with distinct weights N: the columns become the eigenvectors themselves, the largest weight
  // on the smallest eigenvalue.
  const int64_t n = 16, p = 4;
  for (const auto type : kTypes) {
    const auto a = with_spectrum(haar({n, n}, type), torch::linspace(1, 4, n, at::kDouble));
    const auto weights = torch::arange(p, 0, -1, at::kDouble);
    const auto [eigenvalues, vectors] = at::linalg_eigh(a);
    const double best = (eigenvalues.narrow(0, 0, p) * weights).sum().item<double>();
    const Objective f = [&](const Tensor& x) { return real_dot(x, at::matmul(a, x) * weights); };
    const auto start = haar({n, p}, type);
    for (const auto& plan :
         {Plan{"Cayley SGD", false, 0.02, 1, 800}, {"Cayley ADAM", true, 1, 0.999, 1500}}) {
      const auto x = minimize(plan, start, f);
      expect_minimum(f, start, x, best, best, plan.name);
      const auto cosines = at::matmul(x.mH(), vectors.narrow(1, 0, p)).diagonal().abs();
      EXPECT_LT((1 - cosines).max().item<double>(), 1e-7) << plan.name;
    }
  }
}

TEST(Problems, ProcrustesFindsThePolarFactor) {
  // min ‖AX − B‖² over orthogonal X: the polar factor of AᴴB.
  const int64_t n = 8;
  for (const auto type : kTypes) {
    const auto a = torch::randn({12, n}, type);
    const auto b = at::matmul(a, haar({n, n}, type)) + 0.3 * torch::randn({12, n}, type);
    const auto [u, s, vh] = at::linalg_svd(at::matmul(a.mH(), b));
    const auto answer = at::matmul(u, vh);
    const double best = (real_dot(a, a) + real_dot(b, b) - 2 * s.sum()).item<double>();
    const Objective f = [&](const Tensor& x) {
      const auto rest = at::matmul(a, x) - b;
      return real_dot(rest, rest);
    };
    auto start = haar({n, n}, type);
    // The real orthogonal matrices fall into two components, which no continuous motion joins.
    if (type == at::kDouble && (at::linalg_det(start) * at::linalg_det(answer)).item<double>() < 0)
      start[0].neg_();
    for (const auto& plan :
         {Plan{"Cayley SGD", false, 0.002, 1, 1500}, {"Cayley ADAM", true, 0.5, 0.997, 2000}}) {
      const auto x = minimize(plan, start, f);
      expect_minimum(f, start, x, best, best, plan.name);
      EXPECT_LT((x - answer).abs().max().item<double>(), 1e-4) << plan.name;
    }
  }
}

TEST(Problems, JointDiagonalisationFindsTheCommonEigenvectors) {
  // Commuting A_k = U D_k Uᴴ: the squares off the diagonals of XᴴA_kX vanish for X = U, up to order and
  // phases.
  const int64_t n = 8, matrices = 4;
  for (const auto type : kTypes) {
    const auto u = haar({n, n}, type);
    std::vector<Tensor> a;
    for (int64_t k = 0; k < matrices; ++k) a.push_back(with_spectrum(u, torch::randn({n}, at::kDouble)));
    const auto all = at::stack(a);
    const double scale = real_dot(all, all).item<double>();
    const Objective f = [&](const Tensor& x) {
      const auto turned = at::matmul(at::matmul(x.mH(), all), x);
      const auto off = turned - at::diag_embed(turned.diagonal(0, -2, -1));
      return real_dot(off, off);
    };
    const auto start = haar({n, n}, type);
    for (const auto& plan :
         {Plan{"Cayley SGD", false, 0.005, 1, 1500}, {"Cayley ADAM", true, 0.5, 0.997, 2000}}) {
      const auto x = minimize(plan, start, f);
      expect_minimum(f, start, x, 0, scale, plan.name);
      // |XᴴU| is a permutation: one 1 in each row and in each column.
      const auto match = at::matmul(x.mH(), u).abs();
      EXPECT_LT((match.square().amax(0) - 1).abs().max().item<double>(), 1e-6) << plan.name;
      EXPECT_LT((match.square().amax(1) - 1).abs().max().item<double>(), 1e-6) << plan.name;
    }
  }
}

TEST(Momentum, ChangesTheTrajectory) {
  for (const auto type : kTypes) {
    for (const auto& shape : {std::vector<int64_t>{4, 12}, {12, 4}, {6, 6}, {4, 3, 3, 3}}) {
      for (const bool polish : {true, false}) {
        const auto start = haar(shape, type);
        auto with = start.clone(), without = start.clone();
        auto options = stiefel::CayleySGDOptions(0.05);
        options.polish(polish);
        stiefel::CayleySGD first({with}, options.momentum(0.9));
        stiefel::CayleySGD second({without}, options.momentum(0));
        for (int step = 0; step < 5; ++step) {
          with.mutable_grad() = torch::randn_like(start);
          without.mutable_grad() = with.grad().clone();
          first.step();
          second.step();
          const double apart = (with - without).abs().max().item<double>();
          // The first step starts from no momentum, so it is the same; every later one is not.
          if (step == 0) {
            EXPECT_EQ(apart, 0);
          } else {
            EXPECT_GT(apart, 1e-3) << type << " " << shape << " step " << step;
          }
        }
      }
    }
  }
}

}  // namespace problems_test
