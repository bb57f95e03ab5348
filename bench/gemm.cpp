#include "gemm.h"

#include <chrono>

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
  const auto start = std::chrono::steady_clock::now();
  at::mm_out(result_, a_, b_);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace stiefel::bench
