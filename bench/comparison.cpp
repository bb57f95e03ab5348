#include "comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <memory>

#include "start.h"
#include "train/message.h"
#include "train/resolve_config.h"
#include "train/step_graph.h"
#include "train/trainer.h"

namespace stiefel::bench {

namespace {

constexpr int kWarmUps = 2;
constexpr double kShortest = 0.02;  // seconds a turn, so that short steps are averaged

/// The value below which a part of the sorted numbers lies.
double quantile(const std::vector<double>& sorted, double part) {
  const double place = part * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const auto above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

Row row_of(const Contender& contender) {
  Row row;
  row.method = contender.name;
  row.operations = contender.operations;
  row.lacks = contender.lacks;
  return row;
}

const Row* find(const std::vector<Row>& rows, const std::string& method) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.method == method; });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace

void summarise(std::vector<double> seconds, Row& row) {
  if (seconds.empty()) return;
  std::sort(seconds.begin(), seconds.end());
  row.median_ms = 1e3 * quantile(seconds, 0.5);
  row.spread_ms = 1e3 * (quantile(seconds, 0.75) - quantile(seconds, 0.25));
}

void fill_ratios(std::vector<Row>& rows) {
  const auto* sgd = find(rows, "sgd");
  const auto* cayley = find(rows, "cayley-sgd");
  const double by_sgd = sgd ? sgd->median_ms : kUnknown;
  const double by_cayley = cayley ? cayley->median_ms : kUnknown;
  for (auto& row : rows) {
    row.ratio_to_sgd = row.median_ms / by_sgd;
    row.ratio_to_cayley_sgd = row.median_ms / by_cayley;
  }
}

namespace {

/// One contender's steps.
class Lane {
 public:
  Lane(const Contender& contender, const Subject& subject, const at::Device& device)
      : device_(device), run_(contender.begin(subject, device)) {
    double last = 0;
    for (int k = 0; k < kWarmUps; ++k) last = run_->step();
    steps_ = times_in_a_turn(last);
    if (device.is_cuda()) capture();
  }

  void turn() {
    double total = 0;
    for (int64_t k = 0; k < steps_; ++k) total += run_->step();
    alone_.push_back(total / static_cast<double>(steps_));
    if (replays_ > 0) replayed_.push_back(replay_seconds(replays_));
  }

  void report(Row& row, bool constrained) const {
    summarise(replays_ > 0 ? replayed_ : alone_, row);
    if (device_.is_cuda()) {
      Row eager;
      summarise(alone_, eager);
      row.eager_ms = eager.median_ms;
      if (graph_ && replays_ == 0) row.lacks += row.lacks.empty() ? "a CUDA graph" : ", a CUDA graph";
    }
    if (constrained) row.defect = run_->defect();
  }

 private:
  static int64_t times_in_a_turn(double seconds) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::ceil(kShortest / std::max(seconds, 1e-9))), 1, 1000);
  }

  void capture() {
    if (!run_->bare_step(0)) return;
    graph_ = std::make_unique<train::StepGraph>(device_, true);
    for (int k = 0; k <= train::StepGraph::kWarmUps; ++k) launch();
    if (graph_->captured())
      replays_ = times_in_a_turn(replay_seconds(2) * static_cast<double>(kStepsPerGraph));
  }

  void launch() {
    graph_->run([this] {
      for (int64_t k = 0; k < kStepsPerGraph; ++k) run_->bare_step(k);
    });
  }

  /// Seconds a step.
  double replay_seconds(int64_t replays) {
    const double total = seconds_of(
        [&] {
          for (int64_t k = 0; k < replays; ++k) launch();
        },
        device_);
    return total / static_cast<double>(replays * kStepsPerGraph);
  }

  at::Device device_;
  std::unique_ptr<Run> run_;
  std::unique_ptr<train::StepGraph> graph_;
  int64_t steps_ = 1;
  int64_t replays_ = 0;  // none where there is no graph
  std::vector<double> alone_;
  std::vector<double> replayed_;
};

void time_training(const Contender& contender, const runs::Config& base, int64_t steps, Row& row) {
  auto config = base;
  contender.configure(config);
  // What only some of the methods have.
  if (config.optim != "cayley-sgd" && config.optim != "cayley-adam") config.step_precision = "auto";
  if (config.precision == "bf16" && (config.is_parametrised() || config.normalisation != "batch")) {
    row.lacks += row.lacks.empty() ? "bf16" : ", bf16";
    return;
  }
  train::resolve(config);
  train::Trainer trainer(config, {}, {});
  trainer.time_steps(trainer.warm_up_steps());
  summarise(trainer.time_steps(steps), row);
  if (!trainer.graph().reason().empty()) row.lacks += row.lacks.empty() ? "a CUDA graph" : ", a CUDA graph";
  if (contender.constrained) {
    const auto defects = trainer.measure_defects();
    if (!defects.empty()) row.defect = *std::max_element(defects.begin(), defects.end());
  }
  row.steps_per_epoch = trainer.steps_per_epoch();
}

/// What is tried for each row: what fails is said there, and does not keep the others from being measured.
class Attempts {
 public:
  explicit Attempts(std::vector<Row>& rows) : rows_(rows) {}

  template <class Work>
  bool make(size_t row, Work work) {
    try {
      work();
      return true;
    } catch (const std::exception& error) {
      if (!first_) first_ = std::current_exception();
      rows_[row] = without_numbers(rows_[row], one_line(train::message_of(error)));
      return false;
    }
  }

  /// Fills the ratios; throws the first error where there is nothing else.
  void finish() {
    const auto failed = [](const Row& row) { return !row.failure.empty(); };
    if (first_ && std::all_of(rows_.begin(), rows_.end(), failed)) std::rethrow_exception(first_);
    fill_ratios(rows_);
  }

 private:
  static Row without_numbers(const Row& old, const std::string& failure) {
    Row row;
    row.method = old.method;
    row.operations = old.operations;
    row.failure = failure;
    return row;
  }

  static std::string one_line(std::string text) {
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text.empty() ? "it says nothing" : text;
  }

  std::vector<Row>& rows_;
  std::exception_ptr first_;
};

}  // namespace

std::vector<Row> compare_steps(const std::vector<Contender>& contenders, const Subject& subject,
                               const at::Device& device, int64_t repetitions,
                               const std::function<void(const std::string&)>& progress) {
  std::vector<Row> rows;
  for (const auto& contender : contenders) rows.push_back(row_of(contender));
  Attempts attempts(rows);
  std::vector<std::unique_ptr<Lane>> lanes(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    progress(contenders[i].name + ": starting");
    attempts.make(i, [&] { lanes[i] = std::make_unique<Lane>(contenders[i], subject, device); });
  }
  for (int64_t turn = 0; turn < repetitions; ++turn) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!lanes[i]) continue;
      progress(fmt::format("{}: {} of {}", contenders[i].name, turn + 1, repetitions));
      if (!attempts.make(i, [&] { lanes[i]->turn(); })) lanes[i].reset();  // the others need its memory
    }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (lanes[i]) attempts.make(i, [&] { lanes[i]->report(rows[i], contenders[i].constrained); });
  }
  attempts.finish();
  return rows;
}

std::vector<Row> compare_epochs(const std::vector<Contender>& contenders, const runs::Config& base,
                                int64_t steps, const std::function<void(const std::string&)>& progress) {
  std::vector<Row> rows;
  for (const auto& contender : contenders) rows.push_back(row_of(contender));
  Attempts attempts(rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    progress(base.model + ", " + contenders[i].name);
    attempts.make(i, [&] { time_training(contenders[i], base, steps, rows[i]); });
  }
  attempts.finish();
  return rows;
}

std::vector<Row> only(const std::vector<Row>& rows, const std::vector<std::string>& names) {
  if (names.empty()) return rows;
  std::vector<Row> chosen;
  for (const auto& name : names) chosen.push_back(*find(rows, name));
  return chosen;
}

std::vector<Contender> with_baselines(std::vector<Contender> chosen) {
  for (const char* name : {"sgd", "cayley-sgd"}) {
    const bool there =
        std::any_of(chosen.begin(), chosen.end(), [&](const Contender& c) { return c.name == name; });
    if (!there) chosen.push_back(choose_contenders({name})[0]);
  }
  return chosen;
}

}  // namespace stiefel::bench
