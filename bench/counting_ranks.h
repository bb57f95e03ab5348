#pragma once

#include <ATen/ATen.h>
#include <stiefel/ranks.h>

#include <memory>
#include <utility>

#include "traffic.h"

namespace stiefel::bench {

/// Ranks that count what is sent through them.
class CountingRanks final : public Ranks {
 public:
  explicit CountingRanks(std::shared_ptr<Ranks> ranks) : ranks_(std::move(ranks)), sent_(ranks_->size()) {}

  int64_t rank() const override { return ranks_->rank(); }
  int64_t size() const override { return ranks_->size(); }
  void sum_(const at::Tensor& tensor) override {
    sent_.add_sum(static_cast<double>(tensor.nbytes()));
    ranks_->sum_(tensor);
  }
  at::Tensor gather(const at::Tensor& tensor) override {
    sent_.add_gather(static_cast<double>(tensor.nbytes()));
    return ranks_->gather(tensor);
  }

  /// What was sent since the last call.
  Traffic take_sent() { return std::exchange(sent_, RingTraffic(size())).total(); }

 private:
  std::shared_ptr<Ranks> ranks_;
  RingTraffic sent_;
};

}  // namespace stiefel::bench
