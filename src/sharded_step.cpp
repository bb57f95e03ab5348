#include "sharded_step.h"

#include <ATen/core/grad_mode.h>

#include <memory>
#include <optional>
#include <vector>

#include "algebra.h"
#include "gradients.h"
#include "packed_sum.h"
#include "polished_step.h"
#include "shard.h"
#include "step.h"

namespace stiefel::detail {

namespace {

/// One weight of a sharded step, from stage to stage. Sums are over all ranks once a stage is through.
class ShardedWeight {
 public:
  ShardedWeight(size_t index, const at::Tensor& point, const at::Tensor& momentum, const at::Tensor& gradient,
                const Sharding& sharding, bool batched)
      : index_(index),
        view_(point, sharding.dim, batched),
        n_(sharding.lengths[index]),
        x_(view_(point)),
        m_(view_(momentum)),
        g_(view_(gradient)) {
    TORCH_CHECK(n_ >= view_.p(), "stiefel: a weight whose shard has the shape ", point.sizes(), " is ", n_,
                " long over all ranks, which is shorter than its other side, ", view_.p(),
                "; a matrix is divided along its long side");
  }

  /// The local parts of E, S = XᴴM' and ‖G‖², with M' = decay·M + gain·G: which matrices may take it is known
  /// once ‖G‖ is.
  void measure(const UpdateRule& rule, PackedSum& sum) {
    next_ = at::add(m_ * rule.decay, g_, rule.gain);
    e_ = gram(x_);
    squares_ = row_squares(x_);
    s_ = overlap(x_, next_);
    squared_norm_ = frobenius(g_).square_();
    sum.add_hermitian(e_);
    sum.add(squares_);
    sum.add(s_);
    sum.add_doubles(squared_norm_, c10::toRealValueType(x_.scalar_type()));
  }

  /// M ← M' for the matrices that may move.
  void accumulate(const StepCounters& counters) {
    e_.diagonal(0, -2, -1).copy_(squares_ - 1);
    const auto near = frobenius(e_) <= kFarthestStart;  // false for NaN too
    gradient_.emplace(squared_norm_.sqrt(), x_, near, counters);
    e_ = gradient_->clean(e_);
    s_ = gradient_->clean(s_);
    const auto& frozen = gradient_->frozen;
    m_.copy_(frozen.defined() ? at::where(frozen.view({-1, 1, 1}), m_, next_) : next_);
    next_.reset();
    direction_ = m_;
  }

  /// Nesterov's direction G + βM of the projected M, and its S.
  void look_ahead(double momentum, PackedSum& sum) {
    const auto x = gradient_->clean(x_);
    m_.baddbmm_(hermitian(s_), x, 1, -1);
    direction_ = gradient_->clean(g_).add(m_, momentum);
    s_ = overlap(x, direction_);
    sum.add(s_);
  }

  /// Squares have moved after this; the others have projected their momentum.
  void project(const at::Tensor& rate, const UpdateRule& rule, const CayleyOptions& options) {
    const auto r = rule.adam ? advance_(*rule.adam, {{index_}, 0, view_.batch()}, *gradient_, options.eps)
                             : at::Tensor();
    step_size_ = {rule.muon ? scaled_rate(rate, *rule.muon, n_) : rate, r};
    batch_ = {x_, direction_, gradient_->frozen, e_, s_};
    const auto* polar = rule.muon ? &rule.muon->polar : nullptr;
    if (n_ == view_.p()) return square_step_(batch_, step_size_, options, polar);
    step_ = std::make_unique<PolishedStep>(batch_, e_, step_size_, options, polar);
    step_->project(s_);
  }

  bool has_moved() const { return step_ == nullptr; }

  /// The largest entries of this rank's part of M, one number per matrix.
  at::Tensor largest_entries() const {
    // Of no entries LibTorch takes no maximum.
    return view_.length() == 0 ? at::zeros({view_.batch()}, x_.options().dtype(at::kDouble))
                               : entry_norm(direction_);
  }

  bool wants_unit() const { return step_->wants_unit(); }
  void take_unit(const at::Tensor& largest) { step_->take_unit(largest); }

  /// The local parts of T and of the second look's S.
  void look_again(PackedSum& sum) {
    t_ = gram(step_->m());
    second_ = overlap(step_->x(), step_->m());
    sum.add_hermitian(t_);
    sum.add(second_);
  }

  void move() {
    (void)step_->wants_second_look(t_);  // it was taken
    step_->move(t_, second_);
  }

  void write_back(const at::Tensor& point, const at::Tensor& momentum) const {
    view_.write(x_, point);
    view_.write(m_, momentum);
  }

  int64_t batch() const { return view_.batch(); }

 private:
  size_t index_;
  ShardView view_;
  int64_t n_;  // over all ranks
  at::Tensor x_, m_, g_, next_, direction_;
  at::Tensor e_, squares_, s_, squared_norm_, t_, second_;
  std::optional<Gradients> gradient_;
  StepSize step_size_;
  StepBatch batch_;
  std::unique_ptr<PolishedStep> step_;
};

void check(const CayleyOptions& options) {
  TORCH_CHECK(options.polish,
              "stiefel: polish is false; the paper's iteration to the letter is for whole weights");
  TORCH_CHECK(options.norm != Norm::kOne,
              "stiefel: the norm 'one' needs the n×n matrix, which no rank has of a sharded weight; take "
              "'frobenius' or 'spectral'");
}

}  // namespace

void sharded_step(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                  const at::Tensor& rate, StepCounters counters, bool batched, const UpdateRule& rule,
                  const CayleyOptions& options, const Sharding& sharding) {
  const at::NoGradGuard no_grad;
  check_step_tensors(points, momenta, gradients);
  check(options);
  TORCH_CHECK(sharding.lengths.size() == points.size(), "stiefel: ", points.size(),
              " sharded points came with ", sharding.lengths.size(), " lengths");
  if (points.empty()) return;
  check_scalars(rate, counters, points[0].device());
  std::vector<at::Tensor> written(points.begin(), points.end());
  written.insert(written.end(), momenta.begin(), momenta.end());
  check_no_overlap(written);
  const bool reports = !counters.off_manifold.defined() && points[0].device().is_cpu();
  if (reports) counters.off_manifold = at::zeros({}, at::kLong);

  auto& ranks = *sharding.ranks;
  std::vector<ShardedWeight> weights;
  weights.reserve(points.size());  // a stage refers to the one before
  std::vector<int64_t> counts;
  for (size_t i = 0; i < points.size(); ++i) {
    weights.emplace_back(i, points[i], momenta[i], gradients[i], sharding, batched);
    counts.push_back(weights.back().batch());
  }
  if (rule.adam) rule.adam->check(counts, points[0].device());
  PackedSum sum;
  for (auto& weight : weights) weight.measure(rule, sum);
  sum.run(ranks);
  for (auto& weight : weights) weight.accumulate(counters);
  if (rule.muon && rule.muon->nesterov) {
    for (auto& weight : weights) weight.look_ahead(rule.decay, sum);
    sum.run(ranks);
  }
  for (auto& weight : weights) weight.project(rate, rule, options);

  std::vector<ShardedWeight*> left;
  for (auto& weight : weights) {
    if (!weight.has_moved()) left.push_back(&weight);
  }
  if (!left.empty() && left.front()->wants_unit()) {  // all alike
    std::vector<at::Tensor> entries;
    for (const auto* weight : left) entries.push_back(weight->largest_entries());
    const auto largest = ranks.gather(at::cat(entries)).amax(0);
    int64_t at = 0;
    for (auto* weight : left) {
      weight->take_unit(largest.narrow(0, at, weight->batch()));
      at += weight->batch();
    }
  }
  for (auto* weight : left) weight->look_again(sum);
  sum.run(ranks);
  for (auto* weight : left) weight->move();
  for (size_t i = 0; i < points.size(); ++i) weights[i].write_back(points[i], momenta[i]);

  if (!reports) return;
  if (const auto off = counters.off_manifold.item<int64_t>(); off > 0) fail_sharded_off_manifold(off);
}

}  // namespace stiefel::detail
