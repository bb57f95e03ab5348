#include "retraction_cases.h"

// What the retractions are for: every one of them, bare and with momentum, finds optima that linear algebra
// knows.

namespace retraction_problems_test {

using at::Tensor;
using cases::Case;
using cases::haar;
using cases::kTypes;
using cases::real_dot;

using Objective = std::function<Tensor(const Tensor&)>;

/// Minimises f from `start` and expects `best` to 1e-8 of it. With momentum the rate is a fifth.
void expect_minimum(const Case& one, const Tensor& start, const Objective& f, double best, double rate,
                    int64_t steps) {
  for (const double momentum : {0.0, 0.9}) {
    SCOPED_TRACE(::testing::Message() << one.name << " " << start.scalar_type() << " momentum " << momentum);
    auto x = start.clone().requires_grad_();
    const auto optimizer = one.sgd({x}, momentum == 0 ? rate : rate / 5, momentum, false);
    for (int64_t step = 0; step < steps; ++step) {
      optimizer->step([&] {
        optimizer->zero_grad();
        auto loss = f(x);
        loss.backward();
        return loss;
      });
    }
    const double scale = std::abs(best);
    EXPECT_GT((f(start).item<double>() - best) / scale, 1e-3) << "the start is the answer";
    EXPECT_LT((f(x).item<double>() - best) / scale, 1e-8);
    EXPECT_GT((f(x).item<double>() - best) / scale, -1e-11) << "below the minimum";
    EXPECT_LT(support::defect(x), 1e-11);
  }
}

TEST(RetractionProblems, PcaFindsTheLeadingEigenvalues) {
  const int64_t n = 20, p = 4;
  for (const auto type : kTypes) {
    const auto u = haar({n, n}, type);
    const auto eigenvalues = torch::linspace(1, 3, n, at::kDouble).square();
    const auto a = at::matmul(u * eigenvalues, u.mH());
    const double best = -eigenvalues.narrow(0, n - p, p).sum().item<double>();
    const auto start = haar({p, n}, type);
    for (const auto& one : cases::all()) {
      expect_minimum(
          one, start, [&](const Tensor& x) { return real_dot(x, at::matmul(x, a)).neg(); }, best, 0.08, 300);
    }
  }
}

TEST(RetractionProblems, ProcrustesFindsThePolarFactor) {
  // min ‖AX − B‖² over orthogonal X: the polar factor of AᴴB.
  const int64_t n = 6;
  for (const auto type : kTypes) {
    const auto a = haar({12, n}, type) * torch::linspace(1, 2, n, at::kDouble);
    const auto b = at::matmul(a, haar({n, n}, type)) + 0.1 * torch::randn({12, n}, type);
    const auto [u, s, vh] = at::linalg_svd(at::matmul(a.mH(), b));
    const auto answer = at::matmul(u, vh);
    const double best = (real_dot(a, a) + real_dot(b, b) - 2 * s.sum()).item<double>();
    auto start = haar({n, n}, type);
    // The real orthogonal matrices fall into two components, which no continuous motion joins.
    if (type == at::kDouble && (at::linalg_det(start) * at::linalg_det(answer)).item<double>() < 0)
      start[0].neg_();
    for (const auto& one : cases::all()) {
      expect_minimum(
          one, start,
          [&](const Tensor& x) {
            const auto rest = at::matmul(a, x) - b;
            return real_dot(rest, rest);
          },
          best, 0.1, 400);
    }
  }
}

}  // namespace retraction_problems_test
