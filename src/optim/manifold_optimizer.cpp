#include <ATen/core/grad_mode.h>
#include <c10/util/Type.h>
#include <stiefel/manifold.h>
#include <stiefel/optim/manifold_optimizer.h>

#include <algorithm>
#include <sstream>
#include <string_view>
#include <tuple>
#include <typeinfo>

#include "archive_values.h"
#include "batches.h"
#include "compat.h"
#include "device.h"
#include "part_of_step.h"
#include "quoted.h"
#include "shard_extents.h"
#include "shared_steps.h"
#include "step_matrices.h"
#include "step_part.h"

namespace stiefel {

namespace {

using torch::optim::OptimizerParamGroup;

/// Throws unless a group's options are of the optimiser's own type: read as that type, any others would be
/// nonsense.
void check_options(const OptimizerParamGroup& group, const torch::optim::OptimizerOptions& expected) {
  const auto& options = group.options();
  TORCH_CHECK(typeid(options) == typeid(expected), "stiefel: a parameter group has options of the type ",
              c10::demangle(typeid(options).name()), ", but all groups of this optimizer take ",
              c10::demangle(typeid(expected).name()),
              "; a Euclidean group is one with .manifold(stiefel::Manifold::kEuclidean)");
}

GroupOptions& options_of(OptimizerParamGroup& group) { return static_cast<GroupOptions&>(group.options()); }

const GroupOptions& options_of(const OptimizerParamGroup& group) {
  return static_cast<const GroupOptions&>(group.options());
}

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

bool is_reduced(const at::Tensor& t) {
  return t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16;
}

void check_type(const at::Tensor& parameter) {
  TORCH_CHECK(at::isFloatingType(parameter.scalar_type()) || at::isComplexType(parameter.scalar_type()),
              "stiefel: a parameter on the manifold must be floating-point or complex; got ",
              parameter.scalar_type(), " ", parameter.sizes());
  TORCH_CHECK(parameter.layout() == at::kStrided, "stiefel: a parameter on the manifold must be dense; got ",
              parameter.layout());
}

bool is_master(const ParamState::Entry& entry) { return std::string_view(entry.name) == "master"; }

/// The type of a state tensor in a parameter's shape.
at::ScalarType entry_type(const ParamState::Entry& entry, const at::Tensor& parameter, bool on_manifold) {
  const auto own = parameter.scalar_type();
  return is_master(entry) || (on_manifold && is_reduced(parameter)) ? at::kFloat : own;
}

/// Checks a state tensor from an archive against its parameter and puts it where a step expects it: numbers
/// per matrix on the parameter's device, the rest in the parameter's own layout, so that both are read as
/// matrices in one order.
void adopt_tensor(at::Tensor& tensor, const ParamState::Entry& entry, const at::Tensor& parameter,
                  const GroupOptions& options, const detail::ShardExtents* extents) {
  const bool on_manifold = options.manifold() == Manifold::kStiefel;
  const auto type = entry_type(entry, parameter, on_manifold);
  TORCH_CHECK(!is_master(entry) || is_reduced(parameter) || parameter.scalar_type() == at::kFloat,
              "stiefel: the archive has a float32 master of a parameter ", parameter.scalar_type(), " ",
              parameter.sizes(), ", which has none");
  const bool fits = entry.per_matrix ? !tensor.is_complex() : tensor.scalar_type() == type;
  TORCH_CHECK(tensor.layout() == at::kStrided && fits, "stiefel: the archive's '", entry.name,
              "' of a parameter ", parameter.scalar_type(), " ", parameter.sizes(), " is ", tensor.layout(),
              " ", tensor.scalar_type(), " instead of ", at::kStrided, " ",
              entry.per_matrix ? at::kDouble : type);
  // No step on the manifold leaves any other: one that is not finite would make all that it moves NaN.
  TORCH_CHECK(!on_manifold || at::isfinite(tensor).all().item<bool>(), "stiefel: the archive's '", entry.name,
              "' of a parameter ", parameter.sizes(),
              " is not finite: it is damaged; load another copy, or begin with a new optimizer");
  if (entry.per_matrix) {
    const auto expected = on_manifold ? detail::batch_shape_of(parameter, options) : std::vector<int64_t>{};
    TORCH_CHECK(tensor.sizes() == expected, "stiefel: the archive's '", entry.name, "' of a parameter ",
                parameter.sizes(), " has the shape ", tensor.sizes(), " instead of ",
                at::IntArrayRef(expected));
    tensor = tensor.to(parameter.device(), at::kDouble).clone(at::MemoryFormat::Contiguous);
    TORCH_CHECK((tensor >= 0).all().item<bool>(), "stiefel: the archive's '", entry.name, "' of a parameter ",
                parameter.sizes(), " is negative, or no number: it is damaged; load another copy");
    return;
  }
  const auto shape = extents ? extents->whole_shape(parameter) : parameter.sizes().vec();
  TORCH_CHECK(tensor.sizes() == shape, "stiefel: the archive's '", entry.name, "' has the shape ",
              tensor.sizes(), ", its parameter ", at::IntArrayRef(shape));
  if (extents) tensor = extents->part_of(tensor);
  tensor = at::empty_like(parameter, parameter.options().dtype(tensor.scalar_type())).detach().copy_(tensor);
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

/// All weights on the manifold that every rank has whole, in the order of the groups.
std::vector<detail::SharedSteps::Weight> weights_on_manifold(const std::vector<OptimizerParamGroup>& groups) {
  std::vector<detail::SharedSteps::Weight> result;
  for (const auto& group : groups) {
    const auto& options = options_of(group);
    if (options.manifold() != Manifold::kStiefel || options.is_sharded()) continue;
    for (const auto& parameter : group.params()) result.push_back({parameter, options.batched()});
  }
  return result;
}

std::string index_key(const char* what, size_t index) { return what + std::to_string(index); }

}  // namespace

std::vector<int64_t> detail::batch_shape_of(const at::Tensor& point, const GroupOptions& options) {
  if (!options.batched()) return {};
  return point.sizes().slice(0, static_cast<size_t>(point.dim()) - 2).vec();
}

void ParamState::check_whole(Manifold) const {}

std::vector<ParamState::Entry> ParamState::entries() { return {{"master", &master, false}}; }

void ParamState::serialize(torch::serialize::OutputArchive& archive) const {
  const auto copy = clone();  // of the handles, whose entries can be listed
  for (const auto& entry : static_cast<ParamState&>(*copy).entries()) {
    if (entry.tensor->defined()) archive.write(entry.name, *entry.tensor, /*is_buffer=*/true);
  }
}

void ParamState::serialize(torch::serialize::InputArchive& archive) {
  for (const auto& entry : entries()) {
    c10::IValue value;
    if (!archive.try_read(entry.name, value)) continue;
    detail::check_kind(entry.name, value, value.isTensor() && value.toTensor().defined(), "a tensor");
    *entry.tensor = value.toTensor();
  }
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

const ParamState* ManifoldOptimizer::state_to_save(const at::Tensor& parameter) const {
  const auto whole = consolidated_.find(parameter.unsafeGetTensorImpl());
  return whole == consolidated_.end() ? find_state(parameter) : whole->second.get();
}

void ManifoldOptimizer::save(torch::serialize::OutputArchive& archive) const {
  TORCH_CHECK(!sharing_ || consolidated_on_ == sharing_->ranks()->rank(),
              "stiefel: the states of a distributed optimizer lie on several ranks; call consolidate_states(",
              sharing_ ? sharing_->ranks()->rank() : 0, ") on every rank, then save() on rank ",
              sharing_ ? sharing_->ranks()->rank() : 0);
  archive.write("stiefel_optimizer", c10::IValue(name()));
  archive.write("stiefel_format", c10::IValue(int64_t{1}));
  archive.write("skipped_steps", c10::IValue(total_skipped()));
  archive.write("groups", c10::IValue(static_cast<int64_t>(param_groups_.size())));
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    const auto& group = param_groups_[i];
    check_options(group, defaults());
    torch::serialize::OutputArchive group_archive(archive.compilation_unit());
    torch::serialize::OutputArchive options_archive(archive.compilation_unit());
    options_of(group).serialize(options_archive);
    group_archive.write("options", options_archive);
    group_archive.write("parameters", c10::IValue(static_cast<int64_t>(group.params().size())));
    for (size_t j = 0; j < group.params().size(); ++j) {
      torch::serialize::OutputArchive state_archive(archive.compilation_unit());
      if (const auto* state = state_to_save(group.params()[j])) state->serialize(state_archive);
      group_archive.write(index_key("state", j), state_archive);
    }
    archive.write(index_key("group", i), group_archive);
  }
}

void ManifoldOptimizer::load(torch::serialize::InputArchive& archive) {
  const at::NoGradGuard no_grad;
  check_ranks();
  const auto kind = detail::read_text(archive, "stiefel_optimizer");
  TORCH_CHECK(kind == name(), "stiefel: the archive holds the state of ", detail::quoted(kind), ", not of ",
              name());
  const auto format = detail::read_integer(archive, "stiefel_format");
  TORCH_CHECK(format == 1, "stiefel: the archive has format ", format, "; this version reads format 1");
  const auto groups = static_cast<size_t>(detail::read_integer(archive, "groups"));
  TORCH_CHECK(groups == param_groups_.size(), "stiefel: the archive has ", groups,
              " parameter groups, this optimizer ", param_groups_.size());

  // Everything is read and checked first, so that a bad archive changes nothing.
  std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> options;
  std::vector<std::pair<at::Tensor, std::unique_ptr<ParamState>>> states;
  for (size_t i = 0; i < groups; ++i) {
    auto group_archive = detail::read_archive(archive, index_key("group", i));
    auto options_archive = detail::read_archive(group_archive, "options");
    check_options(param_groups_[i], defaults());
    options.push_back(options_of(param_groups_[i]).clone());
    auto& read = static_cast<GroupOptions&>(*options.back());
    read.serialize(options_archive);
    read.validate();
    check_loaded(read);
    const auto& own = options_of(param_groups_[i]);
    TORCH_CHECK(read.manifold() == own.manifold() && read.batched() == own.batched(), "stiefel: group ", i,
                " of the archive is ", to_string(read.manifold()), read.batched() ? ", batched" : "",
                ", this optimizer's ", to_string(own.manifold()), own.batched() ? ", batched" : "");
    const bool sharded = read.is_sharded();
    const auto& parameters = param_groups_[i].params();
    const auto count = static_cast<size_t>(detail::read_integer(group_archive, "parameters"));
    TORCH_CHECK(count == parameters.size(), "stiefel: group ", i, " of the archive has ", count,
                " parameters, this optimizer's ", parameters.size());
    for (size_t j = 0; j < count; ++j) {
      auto state_archive = detail::read_archive(group_archive, index_key("state", j));
      auto state = new_state();
      state->serialize(state_archive);
      state->check_whole(read.manifold());
      const auto* extents = sharded ? &extents_of(parameters[j]) : nullptr;
      for (const auto& entry : state->entries()) {
        if (entry.tensor->defined()) adopt_tensor(*entry.tensor, entry, parameters[j], read, extents);
      }
      if (const auto* now = find_state(parameters[j]); now && !state->master.defined()) {
        state->master = now->master;
        state->written_version = now->written_version;
      }
      states.emplace_back(parameters[j], std::move(state));
    }
  }
  const auto skipped = detail::read_integer(archive, "skipped_steps");
  TORCH_CHECK(skipped >= 0, "stiefel: the archive's 'skipped_steps' is ", skipped, ": it is damaged");

  for (size_t i = 0; i < groups; ++i) param_groups_[i].set_options(std::move(options[i]));
  for (auto& [parameter, state] : states) state_[state_key(parameter)] = std::move(state);
  counters_.clear();
  skipped_before_ = skipped;
  consolidated_.clear();
  consolidated_on_ = -1;
  has_states_of_others_ = sharing_ != nullptr;
}

}  // namespace stiefel
