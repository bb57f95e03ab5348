#include "gradient_buckets.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

namespace stiefel::distributed {

namespace {

using torch::autograd::variable_list;

/// The numbers of a tensor as real ones.
at::Tensor real_of(const at::Tensor& tensor) {
  const auto detached = tensor.detach();
  return detached.is_complex() ? at::view_as_real(detached.resolve_conj()) : detached;
}

/// The part of a buffer that holds a parameter's gradient, laid out as the parameter is, so that copying
/// between them is copying memory.
at::Tensor part_of(const at::Tensor& buffer, int64_t offset, const at::Tensor& like) {
  if (like.is_non_overlapping_and_dense()) {
    return at::as_strided(buffer, like.sizes(), like.strides(), buffer.storage_offset() + offset);
  }
  return buffer.narrow(0, offset, like.numel()).view(like.sizes());
}

}  // namespace

struct GradientBuckets::Slot {
  at::Tensor parameter;
  size_t bucket = 0;
  at::Tensor part;           // of the bucket's buffer
  bool has_arrived = false;  // in this step
  bool is_expected = true;   // whether the bucket waits for it
  bool takes_part = true;    // whether any rank has a gradient of it
  std::shared_ptr<torch::autograd::Node> accumulator;
  uintptr_t hook = 0;
};

struct GradientBuckets::Bucket {
  at::Tensor buffer;
  std::vector<size_t> slots;
  // Until it is known which gradients all ranks have, and where they differ, a bucket waits for the end of
  // the backward pass: ranks start their sums in one order, among those that the network itself takes.
  bool waits_for_end = true;
  size_t missing = 0;  // slots that it still waits for in this step
  std::unique_ptr<Pending> sum;
};

/// Called when a parameter's gradient has been accumulated.
class GradientBuckets::Hook : public torch::autograd::FunctionPostHook {
 public:
  Hook(GradientBuckets& buckets, size_t slot) : buckets_(buckets), slot_(slot) {}

  variable_list operator()(const variable_list& outputs, const variable_list&) override {
    buckets_.collect(slot_);
    return outputs;
  }

 private:
  GradientBuckets& buckets_;
  size_t slot_;
};

GradientBuckets::GradientBuckets(std::shared_ptr<World> world, const std::vector<at::Tensor>& parameters,
                                 int64_t bytes)
    : world_(std::move(world)) {
  int64_t length = 0;  // numbers in the bucket that is being filled
  std::vector<int64_t> offsets;
  const auto close = [&] {
    if (buckets_.empty() || buckets_.back().buffer.defined()) return;
    auto& bucket = buckets_.back();
    const auto like = real_of(slots_[bucket.slots[0]].parameter);
    bucket.buffer = at::zeros({length}, like.options());
    for (const auto i : bucket.slots) {
      slots_[i].part = part_of(bucket.buffer, offsets[i], real_of(slots_[i].parameter));
    }
    length = 0;
  };
  for (auto parameter = parameters.rbegin(); parameter != parameters.rend(); ++parameter) {
    if (!parameter->requires_grad()) continue;
    const auto numbers = real_of(*parameter);
    const auto more = numbers.numel();
    const auto size = static_cast<int64_t>(numbers.element_size());
    const bool fits = [&] {
      if (buckets_.empty()) return false;
      const auto first = real_of(slots_[buckets_.back().slots[0]].parameter);
      return first.scalar_type() == numbers.scalar_type() && first.device() == numbers.device() &&
             (length + more) * size <= bytes;
    }();
    if (!fits) {
      close();
      buckets_.emplace_back();
    }
    Slot slot;
    slot.parameter = *parameter;
    slot.bucket = buckets_.size() - 1;
    buckets_.back().slots.push_back(slots_.size());
    slots_.push_back(std::move(slot));
    offsets.push_back(length);
    length += more;
  }
  close();
}

GradientBuckets::~GradientBuckets() {
  for (const auto& slot : slots_) {
    if (slot.accumulator) slot.accumulator->del_post_hook(slot.hook);
  }
}

size_t GradientBuckets::count() const { return buckets_.size(); }

int64_t GradientBuckets::bytes() const {
  int64_t total = 0;
  for (const auto& bucket : buckets_) total += static_cast<int64_t>(bucket.buffer.nbytes());
  return total;
}

void GradientBuckets::attach() {
  // Only now: a backward pass accumulates a gradient on the stream on which its accumulator was made, and a
  // captured step must meet no other stream than its own.
  for (size_t i = 0; i < slots_.size(); ++i) {
    auto& slot = slots_[i];
    slot.accumulator = torch::autograd::impl::grad_accumulator(slot.parameter);
    slot.hook = slot.accumulator->add_post_hook(std::make_unique<Hook>(*this, i));
  }
}

void GradientBuckets::begin() {
  if (!slots_.empty() && !slots_[0].accumulator) attach();
  for (auto& bucket : buckets_) bucket.missing = bucket.waits_for_end ? 1 : 0;
  for (auto& slot : slots_) {
    slot.has_arrived = false;
    if (slot.is_expected) ++buckets_[slot.bucket].missing;
  }
  started_ = 0;
  open_ = true;
}

void GradientBuckets::collect(size_t index) {
  auto& slot = slots_[index];
  const auto& gradient = slot.parameter.grad();
  if (!open_ || slot.has_arrived || !gradient.defined()) return;
  TORCH_CHECK(
      slot.takes_part && slot.bucket >= started_, "stiefel: a parameter of shape ", slot.parameter.sizes(),
      " had no gradient in the first step and has one now; where several processes train, every step must"
      " give gradients to the same parameters");
  const at::NoGradGuard no_grad;
  slot.part.copy_(real_of(gradient), /*non_blocking=*/true);
  slot.has_arrived = true;
  if (slot.is_expected) --buckets_[slot.bucket].missing;
  start_full_ones();
}

void GradientBuckets::start_full_ones() {
  for (; started_ < buckets_.size() && buckets_[started_].missing == 0; ++started_) {
    auto& bucket = buckets_[started_];
    // What it does not wait for may be left from the last step.
    for (const auto i : bucket.slots) {
      if (!slots_[i].has_arrived) slots_[i].part.zero_();
    }
    bucket.sum = world_->start_sum_(bucket.buffer);
  }
}

void GradientBuckets::finish() {
  const at::NoGradGuard no_grad;
  // A gradient that this backward pass has not touched counts too: zeroed, or as the caller has left it.
  for (size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].bucket >= started_ && !slots_[i].has_arrived) collect(i);
  }
  for (auto& bucket : buckets_) bucket.missing = 0;
  start_full_ones();
  open_ = false;
  if (!settled_) settle_participants();
  for (auto& bucket : buckets_) hand_back(bucket);
}

void GradientBuckets::settle_participants() {
  if (slots_.empty()) return;
  auto present = at::zeros({static_cast<int64_t>(slots_.size())}, at::kLong);
  auto* values = present.data_ptr<int64_t>();
  for (size_t i = 0; i < slots_.size(); ++i) values[i] = slots_[i].has_arrived ? 1 : 0;
  auto summed = present.to(slots_[0].parameter.device()).clone();
  world_->ranks()->sum_(summed);
  summed = summed.to(at::kCPU);
  for (auto& bucket : buckets_) bucket.waits_for_end = false;
  for (size_t i = 0; i < slots_.size(); ++i) {
    const auto ranks = summed.data_ptr<int64_t>()[i];
    slots_[i].takes_part = ranks > 0;
    slots_[i].is_expected = slots_[i].has_arrived;
    if (ranks > 0 && ranks < world_->size()) buckets_[slots_[i].bucket].waits_for_end = true;
  }
  settled_ = true;
}

void GradientBuckets::hand_back(Bucket& bucket) {
  bucket.sum->wait();
  bucket.sum.reset();
  bucket.buffer.div_(world_->size());
  for (const auto i : bucket.slots) {
    auto& slot = slots_[i];
    if (!slot.takes_part) continue;
    auto& gradient = slot.parameter.mutable_grad();
    if (!gradient.defined() || gradient.is_conj()) gradient = at::empty_like(slot.parameter);
    real_of(gradient).copy_(slot.part, /*non_blocking=*/true);
  }
}

}  // namespace stiefel::distributed
