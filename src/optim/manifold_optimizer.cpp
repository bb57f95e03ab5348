#include <ATen/core/grad_mode.h>
#include <stiefel/manifold.h>
#include <stiefel/optim/manifold_optimizer.h>

#include <algorithm>
#include <tuple>

#include "batches.h"
#include "compat.h"
#include "device.h"
#include "parameter_groups.h"
#include "part_of_step.h"
#include "shard_extents.h"
#include "shared_steps.h"
#include "step_matrices.h"
#include "step_part.h"

namespace stiefel {

namespace {

using detail::check_options;
using detail::is_reduced;
using detail::options_of;
using detail::weights_on_manifold;
using torch::optim::OptimizerParamGroup;

/// Gives a group without options the defaults, less what they hold for Euclidean groups where it is not one.
OptimizerParamGroup with_options(const OptimizerParamGroup& group, const GroupOptions& defaults) {
  auto result = group;
  if (result.has_options()) {
    check_options(result, defaults);
  } else {
    result.set_options(defaults.clone());
    if (defaults.manifold() == Manifold::kStiefel) options_of(result).drop_euclidean();
  }
  return result;
}

std::vector<OptimizerParamGroup> with_options(const std::vector<OptimizerParamGroup>& groups,
                                              const GroupOptions& defaults) {
  defaults.validate_method();
  for (const auto& group : groups) {
    if (group.has_options()) check_options(group, defaults);
  }
  const bool someone_else = std::any_of(groups.begin(), groups.end(), [](const OptimizerParamGroup& group) {
    return group.has_options() && options_of(group).manifold() == Manifold::kEuclidean;
  });
  // With no Euclidean group beside them the defaults are the manifold groups' own, and must suit them.
  if (!someone_else) defaults.validate();
  std::vector<OptimizerParamGroup> result;
  for (const auto& group : groups) result.push_back(with_options(group, defaults));
  return result;
}

void check_type(const at::Tensor& parameter) {
  TORCH_CHECK(at::isFloatingType(parameter.scalar_type()) || at::isComplexType(parameter.scalar_type()),
              "stiefel: a parameter on the manifold must be floating-point or complex; got ",
              parameter.scalar_type(), " ", parameter.sizes());
  TORCH_CHECK(parameter.layout() == at::kStrided, "stiefel: a parameter on the manifold must be dense; got ",
              parameter.layout());
}

/// Makes a half or bfloat16 parameter the rounding of its master.
void write_rounding(const at::Tensor& parameter, ParamState& state) {
  parameter.detach().copy_(state.master);
  state.written_version = parameter._version();
}

/// The chosen entries of a batch.
detail::ParameterBatch choose(const detail::ParameterBatch& all, const std::vector<size_t>& entries) {
  detail::ParameterBatch chosen{detail::pick(all.points, entries),
                                detail::pick(all.momenta, entries),
                                detail::pick(all.gradients, entries),
                                {},
                                {all.sharding.ranks, all.sharding.dim, {}}};
  for (const size_t i : entries) chosen.states.push_back(all.states[i]);
  if (all.sharding) {
    for (const size_t i : entries) chosen.sharding.lengths.push_back(all.sharding.lengths[i]);
  }
  return chosen;
}

/// The matrices of a group that the whole step computes together with `point`, where `part` is less than
/// that.
std::vector<detail::MatrixShape> shapes_of_whole(const OptimizerParamGroup& group, const at::Tensor& point,
                                                 const detail::StepPart& part) {
  std::vector<detail::MatrixShape> shapes;
  if (!part.in_step) return shapes;
  for (const auto& parameter : group.params()) {
    const auto type = is_reduced(parameter) ? at::kFloat : parameter.scalar_type();
    if (parameter.device() != point.device() || type != point.scalar_type()) continue;
    if (!part.in_step(parameter)) continue;
    const MatrixView view(parameter.detach(), options_of(group).batched());
    shapes.insert(shapes.end(), static_cast<size_t>(view.batch()), {view.p(), view.n()});
  }
  return shapes;
}

}  // namespace

std::vector<int64_t> detail::batch_shape_of(const at::Tensor& point, const GroupOptions& options) {
  if (!options.batched()) return {};
  return point.sizes().slice(0, static_cast<size_t>(point.dim()) - 2).vec();
}

ManifoldOptimizer::ManifoldOptimizer(std::vector<OptimizerParamGroup> groups,
                                     std::unique_ptr<GroupOptions> defaults)
    : Optimizer(with_options(groups, *defaults), defaults->clone()) {}

ManifoldOptimizer::~ManifoldOptimizer() = default;

void ManifoldOptimizer::add_param_group(const OptimizerParamGroup& group) {
  Optimizer::add_param_group(with_options(group, static_cast<const GroupOptions&>(defaults())));
  prepare();
}

ParamState& ManifoldOptimizer::state_of(const at::Tensor& parameter) {
  auto& slot = state_[state_key(parameter)];
  if (!slot) slot = new_state();
  return static_cast<ParamState&>(*slot);
}

const ParamState* ManifoldOptimizer::find_state(const at::Tensor& parameter) const {
  const auto found = state_.find(state_key(parameter));
  return found == state_.end() ? nullptr : static_cast<const ParamState*>(found->second.get());
}

void ManifoldOptimizer::prepare() {
  const at::NoGradGuard no_grad;
  groups_.resize(param_groups_.size());
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    auto& group = param_groups_[i];
    check_options(group, defaults());
    const auto& options = options_of(group);
    options.validate();
    auto& prepared = groups_[i].prepared;
    if (prepared == group.params().size()) continue;
    if (options.is_sharded() && !sharing_) continue;  // distribute() comes back to it
    if (options.manifold() == Manifold::kStiefel) {
      const auto& all = group.params();
      const std::vector<at::Tensor> fresh(all.begin() + static_cast<std::ptrdiff_t>(prepared), all.end());
      if (options.is_sharded()) {
        place_shards_on_manifold(fresh, options);
      } else {
        place_on_manifold(fresh, options);
      }
    }
    prepared = group.params().size();
  }
  if (sharing_) sharing_->assign(weights_on_manifold(param_groups_));
}

void ManifoldOptimizer::follow_changes(const at::Tensor& parameter, ParamState& state,
                                       const GroupOptions& options) const {
  // An archive's master is trusted; so is one whose parameter nobody has written since.
  if (state.written_version < 0 || state.written_version == parameter._version()) return;
  auto point = parameter.detach().to(at::kFloat);
  if (options.is_sharded()) {  // no rank sees a defect of its own
    state.master.copy_(point);
    return;
  }
  // Rounding alone takes such a parameter off the manifold. What is further off is left to the step to
  // refuse.
  if (detail::farthest(point, options.batched()) <= kFarthestStart) orthonormalize_(point, options.batched());
  state.master.copy_(point);
}

void ManifoldOptimizer::place_on_manifold(const std::vector<at::Tensor>& parameters,
                                          const GroupOptions& options) {
  size_t mended = 0;
  double worst = 0;
  std::vector<int64_t> worst_shape;
  for (const auto& parameter : parameters) {
    check_type(parameter);
    auto weight = parameter.detach();
    if (is_reduced(weight)) {
      // Rounding alone takes such a parameter off the manifold, so this is no cause for a warning.
      auto& state = state_of(parameter);
      state.master = weight.to(at::kFloat);
      orthonormalize_(state.master, options.batched());
      write_rounding(parameter, state);
      continue;
    }
    const double off = defect(weight, options.batched()).max().item<double>();
    if (off <= options.nearest_start()) continue;
    if (!options.orthonormalize_on_start()) {
      const double far = options.farthest_start();
      TORCH_CHECK(off <= far, "stiefel: a parameter of shape ", weight.sizes(),
                  " is off the manifold by ‖XᴴX − I‖ = ", off, ", too far for a step to draw it in (", far,
                  "); call stiefel::orthonormalize_ on it or leave orthonormalize_on_start on");
      continue;
    }
    orthonormalize_(weight, options.batched());
    ++mended;
    if (!(off <= worst)) {
      worst = off;
      worst_shape = weight.sizes().vec();
    }
  }
  if (mended > 0) {
    TORCH_WARN("stiefel: ", mended, " of ", parameters.size(),
               " parameters were not orthonormal (‖XᴴX − I‖ up to ", worst, ", shape ",
               at::IntArrayRef(worst_shape),
               ") and were replaced by the nearest orthonormal matrices; initialise them with stiefel::init "
               "or stiefel::orthonormalize_ to choose the start yourself");
  }
}

void ManifoldOptimizer::place_shards_on_manifold(const std::vector<at::Tensor>& parameters,
                                                 const GroupOptions& options) {
  auto& ranks = *sharing_->ranks();
  for (const auto& parameter : parameters) {
    check_type(parameter);
    extents_[parameter.unsafeGetTensorImpl()] =
        std::make_unique<detail::ShardExtents>(parameter, options, ranks);
    auto weight = parameter.detach();
    if (is_reduced(weight)) {
      auto& state = state_of(parameter);
      state.master = weight.to(at::kFloat);
      sharded_orthonormalize_(state.master, ranks, options.shard_dim(), options.batched());
      write_rounding(parameter, state);
      continue;
    }
    const double off =
        sharded_defect(weight, ranks, options.shard_dim(), options.batched()).max().item<double>();
    if (off <= options.nearest_start()) continue;
    const auto whole = extents_of(parameter).whole_shape(weight);
    if (!options.orthonormalize_on_start()) {
      TORCH_CHECK(off <= options.farthest_start(), "stiefel: a sharded parameter of the whole shape ",
                  at::IntArrayRef(whole), " is off the manifold by ‖XᴴX − I‖ = ", off,
                  ", too far for a step to draw it in (", options.farthest_start(),
                  "); call stiefel::sharded_orthonormalize_ on it or leave orthonormalize_on_start on");
      continue;
    }
    sharded_orthonormalize_(weight, ranks, options.shard_dim(), options.batched());
    if (ranks.rank() == 0) {
      TORCH_WARN("stiefel: a sharded parameter of the whole shape ", at::IntArrayRef(whole),
                 " was not orthonormal (‖XᴴX − I‖ = ", off,
                 ") and was replaced by the nearest orthonormal matrices; initialise it before it is divided "
                 "to choose the start yourself");
    }
  }
}

const detail::ShardExtents& ManifoldOptimizer::extents_of(const at::Tensor& parameter) const {
  return *extents_.at(parameter.unsafeGetTensorImpl());
}

void ManifoldOptimizer::refresh_rates() {
  for (size_t i = 0; i < groups_.size(); ++i) groups_[i].rate.set(param_groups_[i].options().get_lr());
}

bool ManifoldOptimizer::has_device_rates() const {
  for (const auto& group : param_groups_) {
    for (const auto& parameter : group.params()) {
      if (parameter.device().is_cpu()) return false;
    }
  }
  return true;
}

ManifoldOptimizer::Counters& ManifoldOptimizer::counters_on(const at::Device& device, bool sharded) {
  for (auto& counters : counters_) {
    if (counters.skipped.device() == device && counters.sharded == sharded) return counters;
  }
  const auto options = at::TensorOptions(at::kLong).device(device);
  return counters_.emplace_back(
      Counters{at::zeros({}, options), at::zeros({}, options), 0, at::zeros({2}, options), sharded});
}

int64_t ManifoldOptimizer::total_skipped() const {
  int64_t total = skipped_before_;
  for (const auto& counters : counters_) {
    total += counters.skipped.item<int64_t>() + counters.elsewhere[0].item<int64_t>();
  }
  return total;
}

int64_t ManifoldOptimizer::skipped_steps() const {
  for (auto& counters : counters_) report_off_manifold(counters);
  return total_skipped();
}

void ManifoldOptimizer::report_off_manifold(Counters& counters) const {
  const auto elsewhere = sharing_ ? counters.elsewhere[1].item<int64_t>() : 0;
  const auto off = counters.off_manifold.item<int64_t>() + elsewhere;
  if (off == counters.reported) return;
  const auto matrices = off - std::exchange(counters.reported, off);
  if (counters.sharded) detail::fail_sharded_off_manifold(matrices);
  at::Tensor worst;
  double most = -1;
  bool batched = false;
  for (const auto& group : param_groups_) {
    const auto& options = options_of(group);
    if (options.manifold() != Manifold::kStiefel || options.is_sharded()) continue;
    for (const auto& parameter : group.params()) {
      if (parameter.device() != counters.skipped.device()) continue;
      const auto* state = find_state(parameter);
      const bool has_master = state && state->master.defined() && is_mine(parameter);
      const auto point = has_master ? state->master : parameter.detach();
      const double distance = detail::farthest(point, options.batched());
      if (distance <= most) continue;
      most = distance;
      worst = point;
      batched = options.batched();
    }
  }
  detail::fail_off_manifold(matrices, worst, batched);
}

bool ManifoldOptimizer::is_stepped_alone(const GroupOptions& options, const at::Tensor& point) const {
  const MatrixView view(point, options.batched());
  return point.device().is_cpu() && !detail::is_small_matrix(view.p() * view.n(), point.device());
}

std::vector<ManifoldOptimizer::StepUnit> ManifoldOptimizer::step_units() const {
  std::vector<StepUnit> units;
  for (const auto& group : param_groups_) {
    const auto& options = options_of(group);
    if (options.manifold() != Manifold::kStiefel) continue;
    const auto& all = group.params();
    const auto kind = [&](size_t i) {
      const auto* state = find_state(all[i]);
      const auto point = state && state->master.defined() ? state->master : all[i].detach();
      const MatrixView view(point, options.batched());
      const bool alone = is_stepped_alone(options, point);
      return std::make_tuple(alone ? static_cast<int64_t>(i) : -1, point.scalar_type(), point.device().type(),
                             point.device().index(), view.batch(), view.p(), view.n());
    };
    for (const auto& entries : detail::group_by(all.size(), kind)) {
      units.push_back({detail::pick(all, entries), options.batched()});
    }
  }
  return units;
}

void ManifoldOptimizer::step_manifold_group(OptimizerParamGroup& group, detail::GroupRate& rate,
                                            const detail::StepPart& part) {
  const auto& options = options_of(group);
  ParameterBatch all;
  std::vector<std::pair<at::Tensor, at::Tensor>> apart;  // points that are not their parameters' memory
  std::vector<std::pair<at::Tensor, ParamState*>> rounded;
  const bool sharded = options.is_sharded();
  std::vector<bool> have;
  if (sharded) {
    all.sharding = {sharing_->ranks(), options.shard_dim(), {}};
    std::vector<const detail::ShardExtents*> extents;
    for (const auto& parameter : group.params()) extents.push_back(&extents_of(parameter));
    have = detail::have_gradients(group.params(), extents, *sharing_->ranks());
  }
  for (size_t i = 0; i < group.params().size(); ++i) {
    auto& parameter = group.params()[i];
    if (!part.takes(parameter)) continue;
    if (sharded ? !have[i] : !is_mine(parameter) || !parameter.grad().defined()) continue;
    // Nothing flows through a part that is empty; the step takes zeros of its shape.
    const auto gradient = parameter.grad().defined() ? parameter.grad() : at::zeros_like(parameter);
    TORCH_CHECK(!gradient.is_sparse(), "stiefel: a gradient of shape ", parameter.sizes(),
                " is sparse; a step on the manifold moves the whole matrix, so make it dense");
    auto& state = state_of(parameter);
    // A half or bfloat16 parameter is the rounding of its master, a lazily conjugated one a recipe: both are
    // written below.
    const auto home = parameter.detach();
    if (state.master.defined()) {
      follow_changes(parameter, state, options);
      rounded.emplace_back(parameter, &state);
    }
    const auto point = state.master.defined() ? state.master : home.resolve_conj().resolve_neg();
    if (!state.master.defined() && !point.is_same(home)) apart.emplace_back(point, home);
    const auto momentum = momentum_of(options, state, point);
    all.points.push_back(point);
    if (momentum.defined()) all.momenta.push_back(momentum);
    all.gradients.push_back(gradient.to(point.scalar_type()).resolve_conj().resolve_neg());
    all.states.push_back(&state);
    if (sharded) all.sharding.lengths.push_back(extents_of(parameter).matrix_length);
  }
  const auto kind = [&](size_t i) {
    const auto device = all.points[i].device();
    return std::make_tuple(all.points[i].scalar_type(), device.type(), device.index());
  };
  for (const auto& entries : detail::group_by(all.points.size(), kind)) {
    const auto& first = all.points[entries[0]];
    const auto device = first.device();
    const detail::PartOfStep scope(shapes_of_whole(group, first, part));
    step_manifold(options, choose(all, entries), rate.on(device), counters_on(device, sharded));
  }
  for (const auto& [point, home] : apart) home.copy_(point);
  for (const auto& [parameter, state] : rounded) write_rounding(parameter, *state);
}

void ManifoldOptimizer::step_euclidean_group(OptimizerParamGroup& group, detail::GroupRate& rate) {
  ParameterBatch batch;
  for (auto& parameter : group.params()) {
    if (!parameter.grad().defined()) continue;
    TORCH_CHECK(!parameter.grad().is_sparse(), "stiefel: a gradient of shape ", parameter.sizes(),
                " is sparse, which this optimizer does not support; make it dense");
    batch.points.push_back(parameter.detach());
    batch.gradients.push_back(parameter.grad());
    batch.states.push_back(&state_of(parameter));
  }
  if (!batch.points.empty()) step_euclidean(options_of(group), batch, rate);
}

void ManifoldOptimizer::check_capture(const detail::StepPart& part) const {
  c10::optional<at::Device> asked;
  bool captures = false;
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    const auto& group = param_groups_[i];
    for (const auto& parameter : group.params()) {
      if (asked != parameter.device()) {
        asked = parameter.device();
        captures = detail::is_capturing(*asked);
      }
      if (!captures || !parameter.grad().defined()) continue;
      const auto& options = options_of(group);
      const bool on_manifold = options.manifold() == Manifold::kStiefel;
      if (on_manifold ? !part.manifold || !part.takes(parameter) : !part.euclidean) continue;
      if (on_manifold && !options.is_sharded() && !is_mine(parameter)) continue;
      TORCH_CHECK(find_state(parameter) && groups_[i].rate.has_copies(),
                  "stiefel: a step is captured into a CUDA graph before it was ever taken, so every replay "
                  "would make its buffers again; take one step before the capture");
      TORCH_CHECK(
          groups_[i].rate.value() == options_of(group).lr(), "stiefel: a rate has changed to ",
          options_of(group).lr(),
          " since the last step, and a capture would freeze it; call refresh_rates() before the capture");
    }
  }
}

at::Tensor ManifoldOptimizer::step(LossClosure closure) {
  at::Tensor loss;
  if (closure) {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  }
  TORCH_CHECK(
      !is_in_parts_,
      "stiefel: a part of this step may have been taken behind the backward pass; end it with finish() "
      "of the OverlappedStep, or cancel(), instead of step()");
  const at::NoGradGuard no_grad;
  const auto all = detail::StepPart::all();
  prepare();
  check_ranks();
  check_capture(all);
  begin_step();
  step_part(all);
  end_step();
  return loss;
}

/// What comes before the first part of a step.
void ManifoldOptimizer::begin_step() {
  refresh_rates();
  consolidated_on_ = -1;
  consolidated_.clear();
  if (has_states_of_others_) release_states_of_others();
}

void ManifoldOptimizer::step_part(const detail::StepPart& part) {
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    auto& group = param_groups_[i];
    if (options_of(group).manifold() == Manifold::kStiefel) {
      if (part.manifold) step_manifold_group(group, groups_[i].rate, part);
    } else if (part.euclidean) {
      step_euclidean_group(group, groups_[i].rate);
    }
  }
}

/// What comes after the last one.
void ManifoldOptimizer::end_step() {
  if (sharing_) exchange_steps();
  for (auto& counters : counters_) {
    if (counters.skipped.device().is_cpu()) report_off_manifold(counters);
  }
}

/// The same as begin_step() for a step whose gradients are still to come.
void ManifoldOptimizer::begin_parts() {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(
      !is_in_parts_,
      "stiefel: this optimiser's step is under way in another OverlappedStep; give an optimiser to one");
  TORCH_CHECK(!sharing_,
              "stiefel: the steps of this optimiser are shared among ranks, so its gradients are final only "
              "when all ranks have added them up, after the backward pass; call step() then");
  prepare();
  check_ranks();
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    const auto& rate = groups_[i].rate;
    const double lr = options_of(param_groups_[i]).lr();
    if (!rate.has_copies() || rate.value() == lr) continue;
    for (const auto& parameter : param_groups_[i].params()) {
      TORCH_CHECK(
          !detail::is_capturing(parameter.device()), "stiefel: a rate has changed to ", lr,
          " since the last step, and a capture would freeze it; call refresh_rates() before the capture");
    }
  }
  begin_step();
  is_in_parts_ = true;
}

}  // namespace stiefel
