#include <cmath>
#include <cstdio>

#include "retraction_cases.h"

// Wen and Yin's curvilinear search: it reaches known optima in few evaluations, and every step of it obeys
// the rules, which are recomputed here.

namespace curvilinear_search_test {

using at::Tensor;
using cases::Groups;
using cases::haar;
using cases::kTypes;
using cases::real_dot;
using stiefel::CurvilinearSearch;
using stiefel::Manifold;
using stiefel::RetractionSGDOptions;
using stiefel::SearchOptions;
using stiefel::WenYin;
using support::copy_of;
using Options = RetractionSGDOptions<WenYin>;

/// A function of a tall X (n×p), where to start, and its least value.
struct Problem {
  const char* name;
  std::function<Tensor(const Tensor&)> f;
  Tensor start;
  double best;
  double fixed_rate;  // about the best one for steps of a fixed rate; twice and half of it are tried too
};

Problem pca(at::ScalarType type) {
  const int64_t n = 60, p = 5;
  const auto u = haar({n, n}, type);
  const auto eigenvalues = torch::linspace(1, 3, n, at::kDouble).square();
  const auto a = at::matmul(u * eigenvalues, u.mH());
  const double best = -eigenvalues.narrow(0, n - p, p).sum().item<double>();
  return {"PCA", [a](const Tensor& x) { return real_dot(x, at::matmul(a, x)).neg(); }, haar({n, p}, type),
          best, 0.08};
}

Problem procrustes(at::ScalarType type) {
  const int64_t n = 8;
  const auto a = haar({12, n}, type) * torch::logspace(0, 1, n, 10, at::kDouble);
  const auto b = at::matmul(a, haar({n, n}, type)) + 0.1 * torch::randn({12, n}, type);
  const auto [u, s, vh] = at::linalg_svd(at::matmul(a.mH(), b));
  auto start = haar({n, n}, type);
  if (type == at::kDouble && (at::linalg_det(start) * at::linalg_det(u.mm(vh))).item<double>() < 0)
    start.narrow(1, 0, 1).neg_();  // into the answer's component
  const double best = (real_dot(a, a) + real_dot(b, b) - 2 * s.sum()).item<double>();
  const auto f = [a, b](const Tensor& x) {
    const auto rest = at::matmul(a, x) - b;
    return real_dot(rest, rest);
  };
  return {"Procrustes", f, start, best, 0.01};
}

Problem brockett(at::ScalarType type) {
  const int64_t n = 16, p = 4;
  const auto u = haar({n, n}, type);
  const auto eigenvalues = torch::linspace(1, 4, n, at::kDouble);
  const auto a = at::matmul(u * eigenvalues, u.mH());
  const auto weights = torch::arange(p, 0, -1, at::kDouble);
  const double best = (eigenvalues.narrow(0, 0, p) * weights).sum().item<double>();
  return {"Brockett", [a, weights](const Tensor& x) { return real_dot(x, at::matmul(a, x) * weights); },
          haar({n, p}, type), best, 0.08};
}

/// Evaluations of f until it is within 1e-10 of its least value, relatively; `most` where it never is.
int64_t evaluations(torch::optim::Optimizer& optimizer, const Tensor& x, const Problem& problem,
                    int64_t most) {
  int64_t count = 0;
  double last = 0;
  const auto closure = [&] {
    ++count;
    optimizer.zero_grad();
    auto loss = problem.f(x);
    loss.backward();
    last = loss.item<double>();
    return loss;
  };
  const double scale = std::abs(problem.best);
  while (count < most) {
    optimizer.step(closure);
    EXPECT_GT((last - problem.best) / scale, -1e-11) << problem.name << ": below the minimum";
    if ((last - problem.best) / scale < 1e-10) break;
  }
  return count;
}

TEST(CurvilinearSearch, ReachesTheOptimumInFarFewerEvaluationsThanAFixedRate) {
  for (const auto type : kTypes) {
    for (const auto& problem : {pca(type), procrustes(type), brockett(type)}) {
      auto x = problem.start.clone().requires_grad_();
      CurvilinearSearch<> search({x}, Options(1e-3));
      const auto searched = evaluations(search, x, problem, 2000);
      int64_t stepped = 2000;
      for (const double factor : {0.5, 1.0, 2.0}) {
        auto y = problem.start.clone().requires_grad_();
        stiefel::RetractionSGD<WenYin> fixed({y}, Options(factor * problem.fixed_rate));
        stepped = std::min(stepped, evaluations(fixed, y, problem, 2000));
      }
      std::printf("%-10s %-14s %4d evaluations, at a fixed rate %4d\n", problem.name, toString(type),
                  static_cast<int>(searched), static_cast<int>(stepped));
      EXPECT_LT(searched, 400) << problem.name << " " << type;
      EXPECT_LT(2 * searched, stepped) << problem.name << " " << type;
      EXPECT_LT(support::defect(x), 1e-11);
    }
  }
}

TEST(CurvilinearSearch, WorksWithEveryRetraction) {
  for (const auto& one : cases::all()) {
    for (const auto type : kTypes) {
      for (const auto& problem : {pca(type), procrustes(type)}) {
        auto x = problem.start.clone().requires_grad_();
        const auto search = one.search({x}, 1e-3, {});
        EXPECT_LT(evaluations(*search, x, problem, 1000), 400)
            << one.name << " " << problem.name << " " << type;
      }
    }
  }
}

/// ‖ξ‖² and ξ of a tall parameter at its present gradient.
Tensor tangent_of(const Tensor& x) { return cases::project(x.detach(), x.grad()); }

double squared(const Tensor& t) { return t.abs().square().sum().item<double>(); }

TEST(CurvilinearSearch, EveryStepObeysTheRules) {
  // Two parameters, one on the manifold and one free, so that the sums over parameters show.
  for (const auto type : kTypes) {
    for (const double memory : {0.85, 0.0}) {
      const auto problem = brockett(type);
      auto x = problem.start.clone().requires_grad_();
      auto c = torch::randn({4}, at::kDouble).requires_grad_();
      SearchOptions options;
      options.memory = memory;
      options.rho = 0.3;  // demanding, so that steps are refused
      options.shrink = 0.4;
      options.tries = 60;
      const auto free = Options(1).manifold(Manifold::kEuclidean);
      CurvilinearSearch<> search(Groups{{{x}}, {{c}, free.clone()}}, Options(1), options);
      std::vector<double> values;
      const auto closure = [&] {
        search.zero_grad();
        const auto columns = (x.abs().square() * torch::linspace(0, 1, 16, at::kDouble).unsqueeze(1)).sum(0);
        auto loss = problem.f(x) + 3 * (c - columns).square().sum() + 0.1 * c.pow(4).sum();
        loss.backward();
        values.push_back(loss.item<double>());
        return loss;
      };
      double reference = 0, weight = 0;
      int64_t refused = 0, uphill = 0;
      for (int step = 1; step <= 60; ++step) {
        closure();
        values.clear();
        const auto x0 = x.detach().clone(), c0 = c.detach().clone();
        const auto xi0 = tangent_of(x), g0 = c.grad().clone();
        const double slope = squared(xi0) + squared(g0);
        double tau = search.param_groups()[0].options().get_lr();
        EXPECT_EQ(search.param_groups()[1].options().get_lr(), tau) << "one τ for all";
        const double returned = search.step(closure).item<double>();
        EXPECT_EQ(returned, values[0]);
        if (weight == 0) {
          reference = values[0];
          weight = 1;
        }
        // All trials but the last broke Armijo's rule, and the last obeys it.
        for (size_t i = 1; i + 1 < values.size(); ++i) {
          EXPECT_GT(values[i], reference - options.rho * tau * slope);
          tau *= options.shrink;
          ++refused;
        }
        EXPECT_LE(values.back(), reference - options.rho * tau * slope + 1e-14);
        uphill += values.back() > values[0];
        reference = (memory * weight * reference + values.back()) / (memory * weight + 1);
        weight = memory * weight + 1;
        // The accepted point lies on the curve at τ.
        const auto w = reference::generator(x0, xi0);
        EXPECT_LT(support::distance(x, reference::closed_form(x0, w, -tau)), 1e-11);
        EXPECT_LT(support::distance(c, c0 - tau * g0), 1e-13);
        // The next τ is Barzilai and Borwein's.
        const auto s = x.detach() - x0, y = tangent_of(x) - xi0;
        const auto sc = c.detach() - c0, yc = c.grad() - g0;
        const double ss = squared(s) + squared(sc), yy = squared(y) + squared(yc);
        const double sy = std::abs((real_dot(s, y) + real_dot(sc, yc)).item<double>());
        const double next = step % 2 == 0 ? ss / sy : sy / yy;
        EXPECT_NEAR(search.param_groups()[0].options().get_lr() / next, 1, 1e-6) << step;
        if (squared(tangent_of(x)) < 1e-10) break;
      }
      EXPECT_GT(refused, 0) << "no trial was refused";
      if (memory == 0) {
        EXPECT_EQ(uphill, 0) << "a monotone search went up";
      }
    }
  }
}

TEST(CurvilinearSearch, AfterSoManyTriesAStepIsTakenAsItIs) {
  const auto problem = brockett(at::kDouble);
  auto x = problem.start.clone().requires_grad_();
  SearchOptions options;
  options.rho = 0.999;  // no step keeps so much
  options.tries = 3;
  options.most = 0.7;
  CurvilinearSearch<> search({x}, Options(1), options);
  int count = 0;
  const auto closure = [&] {
    ++count;
    search.zero_grad();
    auto loss = problem.f(x);
    loss.backward();
    return loss;
  };
  search.step(closure);
  EXPECT_EQ(count, 1 + 3);
  EXPECT_GT(support::distance(x, problem.start), 1e-3);
}

TEST(CurvilinearSearch, TheBoundsHold) {
  const auto problem = brockett(at::kDouble);
  for (const auto& [least, most] : {std::pair<double, double>{1e-20, 1e-3}, {0.5, 1e20}}) {
    auto x = problem.start.clone().requires_grad_();
    SearchOptions options;
    options.least = least;
    options.most = most;
    CurvilinearSearch<> search({x}, Options(least + 1e-6), options);
    evaluations(search, x, problem, 8);
    EXPECT_EQ(search.param_groups()[0].options().get_lr(), least == 0.5 ? least : most);
  }
}

TEST(CurvilinearSearch, BacksAwayFromWhereTheFunctionIsNotFinite) {
  // −⟨C, X⟩ − log⟨B, X⟩, which is NaN where ⟨B, X⟩ < 0.
  torch::manual_seed(3);
  const auto b = haar({9, 3}, at::kDouble);
  const auto c = 0.5 * haar({9, 3}, at::kDouble) - b;
  auto x = b.clone().requires_grad_();
  CurvilinearSearch<> search({x}, Options(100));
  int not_finite = 0;
  double last = 0;
  const auto closure = [&] {
    search.zero_grad();
    auto loss = -real_dot(c, x) - real_dot(b, x).log();
    loss.backward();
    last = loss.item<double>();
    not_finite += !std::isfinite(last);
    return loss;
  };
  const double first = closure().item<double>();
  for (int step = 0; step < 60; ++step) search.step(closure);
  EXPECT_GT(not_finite, 0) << "it never went there";
  EXPECT_TRUE(std::isfinite(last));
  EXPECT_LT(last, first);
  EXPECT_LT(std::sqrt(squared(tangent_of(x))), 1e-6) << "it stopped short of a critical point";
}

TEST(CurvilinearSearch, SaysWhenThereIsNowhereToGo) {
  for (const double wall : {std::nan(""), HUGE_VAL, -HUGE_VAL}) {
    const auto start = haar({9, 3}, at::kDouble);
    const auto slope = torch::randn({9, 3}, at::kDouble);
    auto x = start.clone().requires_grad_();
    CurvilinearSearch<> search({x}, Options(1));
    int count = 0;
    const auto closure = [&] {
      support::set_gradient(x, slope);
      return torch::full({}, count++ == 0 ? 1.0 : wall, at::kDouble);
    };
    EXPECT_ERROR(search.step(closure), "not finite anywhere");
    EXPECT_TRUE(torch::equal(x, start)) << "and it stays";
    EXPECT_ERROR(search.step(closure), "not finite where the search stands");
    const auto no_gradient = [&] {
      support::set_gradient(x, slope * NAN);
      return torch::ones({}, at::kDouble);
    };
    EXPECT_ERROR(search.step(no_gradient), "gradient is not finite");
  }
}

}  // namespace curvilinear_search_test
