#include <ATen/core/grad_mode.h>
#include <stiefel/optim/manifold_optimizer.h>

#include <sstream>

#include "batches.h"
#include "compat.h"
#include "parameter_groups.h"
#include "shard_extents.h"

// How a ManifoldOptimizer shares its steps among ranks.

namespace stiefel {

namespace {

using detail::options_of;
using detail::weights_on_manifold;

}  // namespace

void ManifoldOptimizer::check_ranks() const {
  if (sharing_) return;
  for (const auto& group : param_groups_) {
    TORCH_CHECK(!options_of(group).is_sharded(),
                "stiefel: a parameter group has shard_dim = ", options_of(group).shard_dim(),
                ", so other ranks have parts of its weights; call distribute() on every rank first");
  }
}

bool ManifoldOptimizer::is_mine(const at::Tensor& parameter) const {
  return !sharing_ || sharing_->is_mine(parameter);
}

void ManifoldOptimizer::distribute(std::shared_ptr<Ranks> ranks) {
  TORCH_CHECK(ranks, "stiefel: distribute() needs ranks; got none");
  TORCH_CHECK(!sharing_, "stiefel: the steps of this optimizer are shared among ranks already");
  const at::NoGradGuard no_grad;
  auto sharing = std::make_unique<detail::SharedSteps>(std::move(ranks));
  const auto weights = weights_on_manifold(param_groups_);
  sharing->check_equal(weights);
  sharing->assign(weights);
  sharing_ = std::move(sharing);
  has_states_of_others_ = true;
  prepare();  // sharded groups have waited for it
}

void ManifoldOptimizer::exchange_steps() {
  std::vector<at::Tensor> moved;
  for (const auto& [parameter, batched] : weights_on_manifold(param_groups_)) {
    if (parameter.grad().defined()) moved.push_back(parameter);
  }
  const auto device_of = [&](size_t i) {
    return std::make_pair(moved[i].device().type(), moved[i].device().index());
  };
  for (const auto& entries : detail::group_by(moved.size(), device_of)) {
    auto& counters = counters_on(moved[entries[0]].device());
    const auto mine = at::stack({counters.skipped, counters.off_manifold});
    counters.elsewhere.copy_(sharing_->exchange(detail::pick(moved, entries), mine).sum(0).sub_(mine));
  }
}

void ManifoldOptimizer::release_states_of_others() {
  has_states_of_others_ = false;
  for (const auto& weight : weights_on_manifold(param_groups_)) {
    if (!is_mine(weight.parameter)) state_.erase(state_key(weight.parameter));
  }
}

void ManifoldOptimizer::consolidate_states(int64_t rank) {
  TORCH_CHECK(sharing_,
              "stiefel: consolidate_states() is for an optimizer that was given ranks by distribute()");
  auto& ranks = *sharing_->ranks();
  TORCH_CHECK(rank >= 0 && rank < ranks.size(), "stiefel: there is no rank ", rank,
              " to consolidate on; there are ", ranks.size());
  const at::NoGradGuard no_grad;
  for (const auto& [parameter, batched] : weights_on_manifold(param_groups_)) {
    const auto owner = sharing_->owner(parameter);
    if (owner == rank) continue;
    std::ostringstream written;
    if (owner == ranks.rank()) {
      torch::serialize::OutputArchive archive;
      if (const auto* state = find_state(parameter)) state->serialize(archive);
      archive.save_to(written);
    }
    const auto text = sharing_->broadcast(written.str(), owner, parameter.device());
    if (rank != ranks.rank()) continue;
    torch::serialize::InputArchive archive;
    std::istringstream reading(text);
    archive.load_from(reading, parameter.device());
    auto state = new_state();
    state->serialize(archive);
    consolidated_[parameter.unsafeGetTensorImpl()] = std::move(state);
  }
  for (const auto& group : param_groups_) {
    if (!options_of(group).is_sharded()) continue;
    for (const auto& parameter : group.params()) {
      auto whole = new_state();
      if (const auto* state = find_state(parameter)) {
        whole.reset(static_cast<ParamState*>(state->clone().release()));
      }
      for (const auto& entry : whole->entries()) {
        if (!entry.tensor->defined() || entry.per_matrix) continue;
        *entry.tensor = extents_of(parameter).gather(*entry.tensor, ranks);
      }
      if (rank == ranks.rank()) consolidated_[parameter.unsafeGetTensorImpl()] = std::move(whole);
    }
  }
  consolidated_on_ = rank;
}

}  // namespace stiefel
