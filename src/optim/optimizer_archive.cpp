#include <ATen/core/grad_mode.h>
#include <stiefel/optim/manifold_optimizer.h>

#include <string_view>

#include "archive_values.h"
#include "compat.h"
#include "parameter_groups.h"
#include "quoted.h"
#include "shard_extents.h"

// A ManifoldOptimizer's archive: everything is checked before anything changes.

namespace stiefel {

namespace {

using detail::check_options;
using detail::is_reduced;
using detail::options_of;

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

std::string index_key(const char* what, size_t index) { return what + std::to_string(index); }

}  // namespace

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
