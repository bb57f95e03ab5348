#pragma once

#include <ATen/ATen.h>
#include <stiefel/ranks.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

/// How ranks that hold the same weights share the steps of them: each weight is stepped by one rank, its
/// owner, and one message hands what the owners have computed to all.
namespace stiefel::detail {

class SharedSteps {
 public:
  explicit SharedSteps(std::shared_ptr<Ranks> ranks) : ranks_(std::move(ranks)) {}

  const std::shared_ptr<Ranks>& ranks() const { return ranks_; }

  /// A weight that the ranks share.
  struct Weight {
    at::Tensor parameter;
    bool batched = false;
  };

  /// Gives an owner to each weight that has none yet, by cost. Alike on all ranks, where the lists are.
  void assign(const std::vector<Weight>& weights);

  int64_t owner(const at::Tensor& parameter) const;
  bool is_mine(const at::Tensor& parameter) const { return owner(parameter) == ranks_->rank(); }

  /// Makes `weights`, all on one device, what their owners have. `counts`, int64 and on that device, are this
  /// rank's; returns those of all ranks, (size, counts).
  at::Tensor exchange(const std::vector<at::Tensor>& weights, const at::Tensor& counts) const;

  /// Text of any length from its owner to all.
  std::string broadcast(const std::string& text, int64_t from, const at::Device& device) const;

  /// Throws on every rank where the weights of a rank are not those of rank 0.
  void check_equal(const std::vector<Weight>& weights) const;

 private:
  std::shared_ptr<Ranks> ranks_;
  std::map<const void*, int64_t> owners_;  // by the parameter's identity
  std::vector<int64_t> loads_;
};

}  // namespace stiefel::detail
