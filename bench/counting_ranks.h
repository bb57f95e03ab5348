#pragma once

#include <ATen/ATen.h>
#include <stiefel/ranks.h>

#include <memory>
#include <utility>

#include "ranks_comparison.h"

namespace stiefel::bench {

/// Ranks that count what is sent through them.
class CountingRanks final : public Ranks {
 public:
  explicit CountingRanks(std::shared_ptr<Ranks> ranks) : ranks_(std::move(ranks)) {}

  int64_t rank() const override { return ranks_->rank(); }
  int64_t size() const override { return ranks_->size(); }
  void sum_(const at::Tensor& tensor) override {
    sent_ += ring_sum(static_cast<double>(tensor.nbytes()), size());
    ranks_->sum_(tensor);
  }
  at::Tensor gather(const at::Tensor& tensor) override {
    sent_ += ring_gather(static_cast<double>(tensor.nbytes()), size());
    return ranks_->gather(tensor);
  }

  /// Bytes, since the last call.
  double take_sent() { return std::exchange(sent_, 0); }

 private:
  std::shared_ptr<Ranks> ranks_;
  double sent_ = 0;
};

}  // namespace stiefel::bench
