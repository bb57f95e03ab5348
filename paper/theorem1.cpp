#include <fmt/format.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <cmath>

#include "base/statistics.h"
#include "declarations.h"
#include "paper/jobs/computed.h"

namespace stiefel::paper {

namespace {

using at::Tensor;

/// Y(α) = (I − α/2 W)⁻¹(I + α/2 W)X.
Tensor closed_form(const Tensor& x, const Tensor& w, double alpha) {
  const auto identity = torch::eye(x.size(0), x.options());
  return at::linalg_solve(identity - alpha / 2 * w, (identity + alpha / 2 * w).mm(x));
}

double frobenius(const Tensor& a) { return a.abs().square().sum().sqrt().item<double>(); }

/// Where the library's Cayley SGD takes X with the rate α and s rounds, as printed and without momentum.
Tensor library_step(const Tensor& x, const Tensor& g, double alpha, int64_t rounds) {
  auto weight = x.mH().resolve_conj().clone();
  weight.mutable_grad() = g.mH().resolve_conj();
  auto options = CayleySGDOptions(alpha);
  options.iterations(rounds).polish(false);
  CayleySGD(std::vector<Tensor>{weight}, options).step();
  return weight.mH();
}

/// The fitted exponent of the error in α, over α‖W‖_F from 0.3 down to 0.03.
double fitted_order(int64_t seed, bool complex, int64_t rounds) {
  torch::manual_seed(static_cast<uint64_t>(seed));
  auto start = torch::empty({6, 40}, complex ? at::kComplexDouble : at::kDouble);
  init::haar_(start);
  const auto x = start.mH().resolve_conj().clone();
  const auto g = torch::randn_like(x);
  const auto w = generator(start, -g.mH());  // the rows of X, M
  std::vector<double> log_alpha;
  std::vector<double> log_error;
  for (double turn = 0.3; turn > 0.03; turn *= 0.75) {
    const double alpha = turn / frobenius(w);
    log_alpha.push_back(std::log(alpha));
    log_error.push_back(std::log(frobenius(library_step(x, g, alpha, rounds) - closed_form(x, w, alpha))));
  }
  return base::slope(log_alpha, log_error);
}

constexpr double kTolerance = 0.1;

}  // namespace

Experiment theorem1() {
  Experiment theorem;
  theorem.name = "theorem1";
  theorem.title = "the order of the iterates' error in the step α";
  theorem.claim =
      "The iteration converges to the closed-form Cayley transform; after s rounds its error is o(α^(2+s)).";
  theorem.test = fmt::format(
      "As O(α^(2+s)), which is what the proof shows: the fitted exponent is within {} of 2 + s, for s = 0 … "
      "3.",
      kTolerance);
  theorem.note =
      "Least squares in log-log over nine steps with α‖W‖ from 0.3 to 0.03, double precision, random points "
      "of the manifold of 40×6 matrices, against a dense n×n solve. With o(·), as printed, the error would "
      "have to be smaller than any multiple of α^(2+s), and is not.";
  theorem.subject = "rounds";
  theorem.seeds = 5;
  for (int64_t s = 0; s <= 3; ++s) {
    for (const char* numbers : {"real", "complex"}) {
      theorem.cells.push_back({fmt::format("s={}", s),
                               numbers,
                               Style::kSlope,
                               {},
                               nullptr,
                               {{2.0 + static_cast<double>(s), ""}}});
    }
  }
  theorem.compute = [](Results& results, int64_t seeds, const ProgressFunction& progress) {
    for (auto& result : results.cells) {
      progress(fmt::format("{}, {}", result.cell.row, result.cell.column));
      const ComputedOrigin origin;
      for (int64_t seed = 1; seed <= seeds; ++seed) {
        const double order =
            fitted_order(seed, result.cell.column == "complex", std::stoll(result.cell.row.substr(2)));
        result.measured.push_back({seed, order, origin.describe(seed, seeds), {}});
      }
      result.passes = std::abs(*result.difference()) <= kTolerance;
    }
  };
  theorem.judge = judge_by_passes;
  return theorem;
}

}  // namespace stiefel::paper
