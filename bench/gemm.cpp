#include "gemm.h"

#include "base/statistics.h"
#include "base/stopwatch.h"

namespace stiefel::bench {

double Gemm::operations() const {
  return 2.0 * static_cast<double>(rows) * static_cast<double>(inner) * static_cast<double>(columns);
}

std::vector<Gemm> gemms() {
  return {
      {"square", "2048×2048 by 2048×2048", 2048, 2048, 2048},
      {"thin-640", "x mᵀ, 640×5760", 640, 5760, 640, true},
      {"wide-640", "F x, 640×5760", 640, 640, 5760},
      {"thin-256", "x mᵀ, 256×2304", 256, 2304, 256, true},
      {"wide-256", "F x, 256×2304", 256, 256, 2304},
  };
}

GemmRun::GemmRun(const Gemm& gemm)
    : a_(at::randn({gemm.rows, gemm.inner})),
      b_(gemm.second_transposed ? at::randn({gemm.columns, gemm.inner}).t()
                                : at::randn({gemm.inner, gemm.columns})),
      result_(at::empty({gemm.rows, gemm.columns})) {}

double GemmRun::step() {
  const base::Stopwatch watch;
  at::mm_out(result_, a_, b_);
  return watch.seconds();
}

std::vector<std::pair<Gemm, double>> gemm_rates(int64_t rounds) {
  const auto all = gemms();
  std::vector<GemmRun> runs(all.begin(), all.end());
  std::vector<std::vector<double>> seconds(all.size());
  for (auto& run : runs) run.step();  // to warm up
  for (int64_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < runs.size(); ++i) seconds[i].push_back(runs[i].step());
  }
  std::vector<std::pair<Gemm, double>> rates;
  for (size_t i = 0; i < all.size(); ++i) {
    rates.emplace_back(all[i], all[i].operations() / base::median(seconds[i]) * 1e-9);
  }
  return rates;
}

}  // namespace stiefel::bench
