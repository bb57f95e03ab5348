#include "step_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>

#include "attempts.h"
#include "base/statistics.h"
#include "gemm.h"
#include "product_counter.h"
#include "sampled_run.h"
#include "start.h"
#include "train/step_graph.h"

namespace stiefel::bench {

namespace {

constexpr int kWarmUps = 2;

/// One contender's steps.
class StepTimer {
 public:
  StepTimer(const Contender& contender, const Subject& subject, const at::Device& device,
            const StepPlan& plan)
      : contender_(contender), plan_(plan), device_(device) {
    sampled_ = plan.sample_slow && contender.slow && subject.network.has_value();
    run_ = sampled_ ? sampled_run(subject.weights, [&](const Workload& part) { return begin(subject, part); })
                    : contender.begin(subject, device);
    double last = 0;
    for (int k = 0; k < kWarmUps; ++k) last = run_->step();
    steps_ = steps_per_round(last);
    if (device.is_cuda()) capture();
    if (plan.rates && contender.countable && !sampled_) count();
  }

  void take_round() {
    double total = 0;
    for (int64_t k = 0; k < steps_; ++k) total += run_->step();
    eager_.push_back({total / static_cast<double>(steps_)});
    if (replays_ > 0) replayed_.push_back({replay_seconds(replays_)});
  }

  /// `products` are the times of the reference product, if rates are wanted.
  void report(Row& row, const Row& products) const {
    row.rounds = replays_ > 0 ? replayed_ : eager_;
    summarize(row);
    if (device_.is_cuda()) {
      Row alone;
      alone.rounds = eager_;
      summarize(alone);
      row.eager_ms = alone.median_ms;
      if (graph_ && replays_ == 0) add_lack(row, "a CUDA graph");
    }
    if (operations_.nominal > 0) {
      // Rates are compared round by round, as times are.
      const double times_product = ratio_in_rounds(row, products);
      row.gflops = operations_.nominal / row.median_ms * 1e-6;
      row.of_gemm = operations_.nominal / gemms().front().operations() / times_product;
      row.of_gemm_executed = row.of_gemm * operations_.executed / operations_.nominal;
    }
    if (contender_.constrained) row.defect = run_->defect();
    if (sampled_) row.note = "on one matrix per shape, times their number";
  }

 private:
  std::unique_ptr<Run> begin(const Subject& subject, const Workload& part) const {
    auto one = subject;
    one.weights = part;
    return contender_.begin(one, device_);
  }

  int64_t steps_per_round(double seconds) const {
    const double wanted = std::ceil(plan_.min_seconds / std::max(seconds, 1e-9));
    return static_cast<int64_t>(std::clamp(wanted, 1.0, 1000.0));
  }

  void count() {
    operations_ = count_operations([this] { run_->bare_step(0); });
  }

  void capture() {
    if (!run_->bare_step(0)) return;
    graph_ = std::make_unique<train::StepGraph>(device_, true);
    for (int k = 0; k <= train::StepGraph::kWarmUps; ++k) launch();
    if (graph_->captured())
      replays_ = steps_per_round(replay_seconds(2) * static_cast<double>(kStepsPerGraph));
  }

  void launch() {
    graph_->run([this] {
      for (int64_t k = 0; k < kStepsPerGraph; ++k) run_->bare_step(k);
    });
  }

  /// Seconds per step.
  double replay_seconds(int64_t replays) {
    const double total = seconds_of(
        [&] {
          for (int64_t k = 0; k < replays; ++k) launch();
        },
        device_);
    return total / static_cast<double>(replays * kStepsPerGraph);
  }

  const Contender& contender_;
  StepPlan plan_;
  at::Device device_;
  bool sampled_ = false;
  std::unique_ptr<Run> run_;
  std::unique_ptr<train::StepGraph> graph_;
  Operations operations_;
  int64_t steps_ = 1;
  int64_t replays_ = 0;  // none where there is no graph
  std::vector<std::vector<double>> eager_;
  std::vector<std::vector<double>> replayed_;
};

/// The reference product, once per round.
class ProductTimer {
 public:
  explicit ProductTimer(bool wanted) {
    if (!wanted) return;
    run_ = std::make_unique<GemmRun>(gemms().front());
    run_->step();
  }
  void take_round() {
    if (run_) row_.rounds.push_back({run_->step()});
  }
  const Row& row() const { return row_; }

 private:
  std::unique_ptr<GemmRun> run_;
  Row row_;
};

class StepComparison {
 public:
  using Say = std::function<void(const std::string&)>;

  StepComparison(const std::vector<Contender>& contenders, const Subject& subject, const at::Device& device,
                 const StepPlan& plan, const Say& progress)
      : contenders_(contenders),
        subject_(subject),
        device_(device),
        plan_(plan),
        progress_(progress),
        attempts_(rows_),
        timers_(contenders.size()),
        products_(plan.rates) {
    for (const auto& contender : contenders) {
      Row row;
      row.workload = subject.weights.name;
      row.method = contender.name;
      row.operations = contender.operations;
      row.lacks = contender.lacks;
      rows_.push_back(row);
    }
  }

  std::vector<Row> result() {
    plan_.interleaved ? measure_in_turns() : measure_one_by_one();
    attempts_.require_one();
    fill_ratios(rows_);
    return rows_;
  }

 private:
  void measure_in_turns() {
    std::vector<size_t> order(rows_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::mt19937_64 random(1);
    for (const auto i : order) start(i);
    for (int64_t round = 0; round < plan_.rounds; ++round) {
      std::shuffle(order.begin(), order.end(), random);
      products_.take_round();
      for (const auto i : order) take_round(i, round);
    }
    for (const auto i : order) report(i);
  }

  /// The memory of one method at a time.
  void measure_one_by_one() {
    for (int64_t round = 0; round < plan_.rounds; ++round) products_.take_round();
    for (size_t i = 0; i < rows_.size(); ++i) {
      start(i);
      for (int64_t round = 0; round < plan_.rounds; ++round) take_round(i, round);
      report(i);
      timers_[i].reset();
    }
  }

  void start(size_t i) {
    progress_(contenders_[i].name + ": starting");
    attempts_.make(
        i, [&] { timers_[i] = std::make_unique<StepTimer>(contenders_[i], subject_, device_, plan_); });
  }

  void take_round(size_t i, int64_t round) {
    if (!timers_[i]) return;
    progress_(fmt::format("{}: {} of {}", contenders_[i].name, round + 1, plan_.rounds));
    if (!attempts_.make(i, [&] { timers_[i]->take_round(); })) timers_[i].reset();  // frees memory for others
  }

  void report(size_t i) {
    if (timers_[i]) attempts_.make(i, [&] { timers_[i]->report(rows_[i], products_.row()); });
  }

  const std::vector<Contender>& contenders_;
  const Subject& subject_;
  at::Device device_;
  StepPlan plan_;
  Say progress_;
  std::vector<Row> rows_;
  Attempts attempts_;
  std::vector<std::unique_ptr<StepTimer>> timers_;
  ProductTimer products_;
};

}  // namespace

std::vector<Row> compare_steps(const std::vector<Contender>& contenders, const Subject& subject,
                               const at::Device& device, const StepPlan& plan,
                               const std::function<void(const std::string&)>& progress) {
  return StepComparison(contenders, subject, device, plan, progress).result();
}

}  // namespace stiefel::bench
