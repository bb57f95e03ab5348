#include <ATen/core/grad_mode.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <stiefel/manifold.h>
#include <stiefel/optim/manifold_optimizer.h>
#include <stiefel/optim/overlapped_step.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <utility>

#include "batches.h"
#include "optim/overlap_parts.h"
#include "optim/side_stream.h"
#include "step_part.h"

namespace stiefel {

namespace {

using torch::autograd::variable_list;

constexpr size_t kNone = std::numeric_limits<size_t>::max();

/// A shared pointer, in LibTorch 2.14 an intrusive one.
using Accumulator = decltype(torch::autograd::impl::grad_accumulator(std::declval<const at::Tensor&>()));

/// The work of a weight's step: np² + p³ per matrix.
double work_of(const at::Tensor& weight, bool batched) {
  const MatrixView view(weight.detach(), batched);
  const auto p = static_cast<double>(view.p()), n = static_cast<double>(view.n());
  return static_cast<double>(view.batch()) * p * p * (n + p);
}

std::vector<ManifoldOptimizer*> manifold_optimizers(const std::vector<torch::optim::Optimizer*>& optimizers) {
  std::vector<ManifoldOptimizer*> found;
  for (auto* optimizer : optimizers) {
    if (auto* ours = dynamic_cast<ManifoldOptimizer*>(optimizer)) found.push_back(ours);
  }
  return found;
}

}  // namespace

void OverlapOptions::validate() const {
  TORCH_CHECK(parts_ >= 1, "stiefel: parts must be at least 1; got ", parts_);
}

class OverlappedStep::Impl {
 public:
  Impl(std::vector<torch::optim::Optimizer*> optimizers, const OverlapOptions& options);
  ~Impl();

  void begin();
  void finish();
  void cancel();
  std::vector<std::vector<at::Tensor>> parts() const;
  int64_t stepped_behind() const { return stepped_; }

 private:
  class Hook;

  struct Weight {
    at::Tensor parameter;
    ManifoldOptimizer* optimizer = nullptr;
    size_t unit = 0;
    size_t part = kNone;     // none where the last order that was learnt has no gradient of it
    size_t arrival = kNone;  // its place among the gradients of this backward pass
    bool is_stepped = false;
    Accumulator accumulator;
    uintptr_t hook = 0;
  };

  /// Weights that must be stepped together.
  struct Unit {
    std::vector<size_t> weights;
    double work = 0;
  };

  struct Part {
    c10::Device device;
    std::vector<size_t> weights;        // whose gradients it waits for
    std::vector<size_t> others;         // of its units, without gradients so far
    size_t missing = 0;                 // gradients that it still waits for in this pass
    std::vector<c10::Stream> streams;   // on which they have come
    std::vector<at::Tensor> gradients;  // kept until the side stream is joined
  };

  void check_parameters() const;
  std::vector<const void*> listed_weights() const;
  void follow_groups();
  void detach();
  void attach();
  std::vector<c10::Stream> caller_streams() const;
  void reset_pass();
  void collect(size_t weight);
  void step_part(Part& part);
  detail::SideStream& side_stream(const c10::Device& device);
  void join();
  void close();
  void learn_order();
  bool came_as_learnt() const;
  const Weight* find(const at::Tensor& parameter) const;

  std::mutex mutex_;  // a backward pass has a thread per device
  std::vector<torch::optim::Optimizer*> optimizers_;
  std::vector<ManifoldOptimizer*> ours_;
  OverlapOptions options_;
  std::vector<const void*> listed_;  // what the optimisers' groups held when the weights were listed
  std::vector<Weight> weights_;
  std::map<const void*, size_t> index_;  // of a weight by its identity
  std::vector<Unit> units_;
  std::vector<Part> parts_;
  std::vector<c10::Stream> attached_on_;  // where the gradient accumulators were made
  std::vector<detail::SideStream> side_streams_;
  bool is_learnt_ = false;
  bool is_open_ = false;                   // between begin() and finish()
  std::vector<ManifoldOptimizer*> begun_;  // the optimisers that know of it
  size_t arrivals_ = 0;
  int64_t stepped_ = 0;  // in this pass, or in the last one
};

/// Called when a weight's gradient has been accumulated, on the stream on which it was.
class OverlappedStep::Impl::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(Impl& step, size_t weight) : step_(step), weight_(weight) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    step_.collect(weight_);
    return outputs;
  }

 private:
  Impl& step_;
  size_t weight_;
};

OverlappedStep::Impl::Impl(std::vector<torch::optim::Optimizer*> optimizers, const OverlapOptions& options)
    : optimizers_(std::move(optimizers)), ours_(manifold_optimizers(optimizers_)), options_(options) {
  options_.validate();
  check_parameters();
}

OverlappedStep::Impl::~Impl() {
  cancel();
  detach();
}

void OverlappedStep::Impl::check_parameters() const {
  std::map<const void*, const torch::optim::Optimizer*> owners;
  for (const auto* optimizer : optimizers_) {
    TORCH_CHECK(optimizer, "stiefel: OverlappedStep was given no optimiser, but a null pointer");
    for (const auto& group : optimizer->param_groups()) {
      for (const auto& parameter : group.params()) {
        const auto [owner, is_new] = owners.emplace(parameter.unsafeGetTensorImpl(), optimizer);
        TORCH_CHECK(is_new || owner->second == optimizer, "stiefel: a parameter of shape ", parameter.sizes(),
                    " belongs to two optimisers, so that one could change it, or its gradient, before the"
                    " other's step; call their step() one after the other instead of overlapping them");
      }
    }
  }
}

std::vector<const void*> OverlappedStep::Impl::listed_weights() const {
  std::vector<const void*> all;
  for (const auto* optimizer : ours_) {
    for (const auto& group : optimizer->param_groups()) {
      for (const auto& parameter : group.params()) all.push_back(parameter.unsafeGetTensorImpl());
    }
  }
  return all;
}

/// Lists the weights on the manifold, at first and where a group has come since.
void OverlappedStep::Impl::follow_groups() {
  auto now = listed_weights();
  if (!listed_.empty() && now == listed_) return;
  check_parameters();
  detach();
  weights_.clear();
  index_.clear();
  units_.clear();
  parts_.clear();
  is_learnt_ = false;
  for (auto* optimizer : ours_) {
    for (const auto& [members, batched] : optimizer->step_units()) {
      Unit unit;
      for (const auto& parameter : members) {
        unit.work += work_of(parameter, batched);
        unit.weights.push_back(weights_.size());
        index_[parameter.unsafeGetTensorImpl()] = weights_.size();
        Weight weight;
        weight.parameter = parameter;
        weight.optimizer = optimizer;
        weight.unit = units_.size();
        weights_.push_back(std::move(weight));
      }
      units_.push_back(std::move(unit));
    }
  }
  listed_ = std::move(now);
}

void OverlappedStep::Impl::detach() {
  for (auto& weight : weights_) {
    if (weight.accumulator) weight.accumulator->del_post_hook(weight.hook);
    weight.accumulator.reset();
  }
}

/// The caller's stream on every accelerator that has weights.
std::vector<c10::Stream> OverlappedStep::Impl::caller_streams() const {
  std::vector<c10::Stream> streams;
  for (const auto& weight : weights_) {
    const auto device = weight.parameter.device();
    const bool known = std::any_of(streams.begin(), streams.end(),
                                   [&](const c10::Stream& stream) { return stream.device() == device; });
    if (!device.is_cpu() && !known) streams.push_back(detail::SideStream::current(device));
  }
  return streams;
}

void OverlappedStep::Impl::attach() {
  // Only when a step begins, and again where that is on another stream: an accumulator runs on the stream on
  // which it was made, and a captured step must meet no other stream than its own.
  auto streams = caller_streams();
  if (streams != attached_on_) detach();
  attached_on_ = std::move(streams);
  for (size_t i = 0; i < weights_.size(); ++i) {
    auto& weight = weights_[i];
    if (weight.accumulator || !weight.parameter.requires_grad() || !weight.parameter.is_leaf()) continue;
    weight.accumulator = torch::autograd::impl::grad_accumulator(weight.parameter);
    weight.hook = weight.accumulator->add_post_hook(std::make_unique<Hook>(*this, i));
  }
}

void OverlappedStep::Impl::reset_pass() {
  for (auto& weight : weights_) {
    weight.arrival = kNone;
    weight.is_stepped = false;
  }
  for (auto& part : parts_) {
    part.missing = part.weights.size();
    part.streams.clear();
    part.gradients.clear();
  }
  arrivals_ = 0;
  stepped_ = 0;
}

void OverlappedStep::Impl::begin() {
  cancel();  // a step that an error has left open
  const at::NoGradGuard no_grad;
  is_open_ = true;
  try {
    for (auto* optimizer : ours_) {
      optimizer->begin_parts();
      begun_.push_back(optimizer);
    }
    follow_groups();
    attach();
    reset_pass();
  } catch (...) {
    close();
    throw;
  }
}

void OverlappedStep::Impl::collect(size_t index) {
  const std::lock_guard<std::mutex> alone(mutex_);
  auto& weight = weights_[index];
  if (!is_open_ || !weight.parameter.grad().defined()) return;
  TORCH_CHECK(
      !weight.is_stepped, "stiefel: a second backward pass has reached a weight of shape ",
      weight.parameter.sizes(),
      " that was stepped behind the first; where gradients of several passes are added up, call begin() "
      "before the last pass only");
  if (weight.arrival != kNone) return;
  weight.arrival = arrivals_++;
  if (weight.part == kNone) return;
  auto& part = parts_[weight.part];
  if (!part.device.is_cpu()) {
    const auto stream = detail::SideStream::current(part.device);
    if (std::find(part.streams.begin(), part.streams.end(), stream) == part.streams.end()) {
      part.streams.push_back(stream);
    }
  }
  if (--part.missing == 0) step_part(part);
}

/// Steps a part whose gradients are all there.
void OverlappedStep::Impl::step_part(Part& part) {
  // A gradient that is left from another pass may still grow in this one, and its weight must be stepped with
  // these: all of them wait for finish().
  for (const auto i : part.others) {
    if (weights_[i].parameter.grad().defined()) return;
  }
  for (const auto i : part.weights) {
    weights_[i].is_stepped = true;
    part.gradients.push_back(weights_[i].parameter.grad());
  }
  stepped_ += static_cast<int64_t>(part.weights.size());
  const auto place = static_cast<size_t>(&part - parts_.data());
  detail::StepPart chosen;
  chosen.manifold = true;
  chosen.takes = [this, place](const at::Tensor& parameter) {
    const auto* weight = find(parameter);
    return weight && weight->part == place;
  };
  chosen.in_step = [this](const at::Tensor& parameter) {
    const auto* weight = find(parameter);
    return weight && weight->part != kNone;
  };
  const auto step = [&] {
    const at::NoGradGuard no_grad;
    // Where the backward pass was called under autocast, which a step outside of it would not see.
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    for (auto* optimizer : ours_) {
      const bool has_some = std::any_of(part.weights.begin(), part.weights.end(),
                                        [&](size_t i) { return weights_[i].optimizer == optimizer; });
      if (!has_some) continue;
      optimizer->check_capture(chosen);
      optimizer->step_part(chosen);
    }
  };
  if (part.device.is_cpu()) {
    step();
  } else {
    side_stream(part.device).run(part.streams, step);
  }
}

detail::SideStream& OverlappedStep::Impl::side_stream(const c10::Device& device) {
  for (auto& stream : side_streams_) {
    if (stream.device() == device) return stream;
  }
  return side_streams_.emplace_back(device);
}

void OverlappedStep::Impl::join() {
  for (auto& stream : side_streams_) stream.join();
  for (auto& part : parts_) part.gradients.clear();
}

void OverlappedStep::Impl::close() {
  is_open_ = false;
  for (auto* optimizer : begun_) optimizer->is_in_parts_ = false;
  begun_.clear();
}

void OverlappedStep::Impl::cancel() {
  if (!is_open_) return;
  close();
  try {
    join();
  } catch (const std::exception&) {
    // The device has failed, and what comes next there says so; the error that led here is the one to show.
  }
}

void OverlappedStep::Impl::finish() {
  TORCH_CHECK(is_open_, "stiefel: finish() of an OverlappedStep comes after begin() and the backward pass");
  const at::NoGradGuard no_grad;
  try {
    // What the parts have nothing to do with runs beside the last of them.
    detail::StepPart euclidean;
    euclidean.euclidean = true;
    for (auto* optimizer : optimizers_) {
      if (auto* ours = dynamic_cast<ManifoldOptimizer*>(optimizer)) {
        ours->check_capture(euclidean);
        ours->step_part(euclidean);
      } else {
        optimizer->step();
      }
    }
    join();
    detail::StepPart rest;
    rest.manifold = true;
    rest.takes = [this](const at::Tensor& parameter) {
      const auto* weight = find(parameter);
      return !weight || !weight->is_stepped;
    };
    if (stepped_ > 0) rest.in_step = [](const at::Tensor& parameter) { return parameter.grad().defined(); };
    for (auto* optimizer : ours_) {
      optimizer->check_capture(rest);
      optimizer->step_part(rest);
    }
    if (!is_learnt_ || !came_as_learnt()) learn_order();
    close();
    for (auto* optimizer : ours_) optimizer->end_step();
  } catch (...) {
    cancel();
    throw;
  }
}

/// None for a parameter of a group that came after begin().
const OverlappedStep::Impl::Weight* OverlappedStep::Impl::find(const at::Tensor& parameter) const {
  const auto found = index_.find(parameter.unsafeGetTensorImpl());
  return found == index_.end() ? nullptr : &weights_[found->second];
}

bool OverlappedStep::Impl::came_as_learnt() const {
  return std::all_of(weights_.begin(), weights_.end(), [](const Weight& weight) {
    return (weight.part == kNone) == (weight.arrival == kNone);
  });
}

void OverlappedStep::Impl::learn_order() {
  is_learnt_ = true;
  parts_.clear();
  for (auto& weight : weights_) weight.part = kNone;
  std::vector<size_t> present;  // units of which a gradient came
  for (size_t u = 0; u < units_.size(); ++u) {
    const auto& all = units_[u].weights;
    if (std::any_of(all.begin(), all.end(), [&](size_t i) { return weights_[i].arrival != kNone; })) {
      present.push_back(u);
    }
  }
  const auto device_of = [&](size_t i) {
    const auto device = weights_[units_[present[i]].weights[0]].parameter.device();
    return std::make_pair(device.type(), device.index());
  };
  for (const auto& here : detail::group_by(present.size(), device_of)) {
    std::vector<detail::OverlapUnit> units;
    for (const auto i : here) {
      const auto& unit = units_[present[i]];
      size_t last = 0;
      for (const auto w : unit.weights) {
        if (weights_[w].arrival != kNone) last = std::max(last, weights_[w].arrival);
      }
      units.push_back({last, unit.work});
    }
    for (const auto& list : detail::divide_by_arrival(units, options_.parts())) {
      Part part{weights_[units_[present[here[0]]].weights[0]].parameter.device(), {}, {}, 0, {}, {}};
      for (const auto i : list) {
        for (const auto w : units_[present[here[i]]].weights) {
          if (weights_[w].arrival == kNone) {
            part.others.push_back(w);
          } else {
            weights_[w].part = parts_.size();
            part.weights.push_back(w);
          }
        }
      }
      parts_.push_back(std::move(part));
    }
  }
}

std::vector<std::vector<at::Tensor>> OverlappedStep::Impl::parts() const {
  std::vector<std::vector<at::Tensor>> result;
  for (const auto& part : parts_) {
    result.emplace_back();
    for (const auto i : part.weights) result.back().push_back(weights_[i].parameter);
  }
  return result;
}

OverlappedStep::OverlappedStep(torch::optim::Optimizer& optimizer, OverlapOptions options)
    : OverlappedStep(std::vector<torch::optim::Optimizer*>{&optimizer}, options) {}

OverlappedStep::OverlappedStep(std::vector<torch::optim::Optimizer*> optimizers, OverlapOptions options)
    : impl_(std::make_unique<Impl>(std::move(optimizers), options)) {}

OverlappedStep::~OverlappedStep() = default;

void OverlappedStep::begin() { impl_->begin(); }
void OverlappedStep::finish() { impl_->finish(); }
void OverlappedStep::cancel() { impl_->cancel(); }

void OverlappedStep::backward_and_step(const at::Tensor& loss) {
  step([&] {
    loss.backward();
    return loss;
  });
}

at::Tensor OverlappedStep::step(const torch::optim::Optimizer::LossClosure& closure) {
  begin();
  at::Tensor loss;
  try {
    const at::AutoGradMode with_grad(true);
    loss = closure();
  } catch (...) {
    cancel();
    throw;
  }
  finish();
  return loss;
}

std::vector<std::vector<at::Tensor>> OverlappedStep::parts() const { return impl_->parts(); }
int64_t OverlappedStep::stepped_behind() const { return impl_->stepped_behind(); }

}  // namespace stiefel
