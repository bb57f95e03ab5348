#include "comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "train/trainer.h"

namespace stiefel::bench {

namespace {

constexpr int kWarmUps = 2;
constexpr double kTurn = 0.02;  // seconds a turn, so that short steps are averaged

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

std::vector<Row> compare_steps(const std::vector<Contender>& contenders, const Subject& subject,
                               const at::Device& device, int64_t repetitions,
                               const std::function<void(const std::string&)>& progress) {
  struct Lane {
    std::unique_ptr<Run> run;
    int64_t steps = 1;
    std::vector<double> seconds;
  };
  std::vector<Lane> lanes(contenders.size());
  for (size_t i = 0; i < lanes.size(); ++i) {
    progress(contenders[i].name + ": starting");
    lanes[i].run = contenders[i].begin(subject, device);
    double last = 0;
    for (int k = 0; k < kWarmUps; ++k) last = lanes[i].run->step();
    lanes[i].steps =
        std::clamp<int64_t>(static_cast<int64_t>(std::ceil(kTurn / std::max(last, 1e-9))), 1, 1000);
  }
  for (int64_t turn = 0; turn < repetitions; ++turn) {
    for (size_t i = 0; i < lanes.size(); ++i) {
      progress(fmt::format("{}: {} of {}", contenders[i].name, turn + 1, repetitions));
      double total = 0;
      for (int64_t k = 0; k < lanes[i].steps; ++k) total += lanes[i].run->step();
      lanes[i].seconds.push_back(total / static_cast<double>(lanes[i].steps));
    }
  }
  std::vector<Row> rows;
  for (size_t i = 0; i < lanes.size(); ++i) {
    auto row = row_of(contenders[i]);
    summarise(lanes[i].seconds, row);
    if (contenders[i].constrained) row.defect = lanes[i].run->defect();
    rows.push_back(row);
  }
  fill_ratios(rows);
  return rows;
}

std::vector<Row> compare_epochs(const std::vector<Contender>& contenders, const train::Config& base,
                                int64_t steps, const std::function<void(const std::string&)>& progress) {
  std::vector<Row> rows;
  for (const auto& contender : contenders) {
    progress(contender.name);
    auto config = base;
    contender.configure(config);
    config.resolve();
    train::Trainer trainer(config, {}, {});
    trainer.time_steps(kWarmUps);
    auto row = row_of(contender);
    summarise(trainer.time_steps(steps), row);
    if (contender.constrained) {
      const auto defects = trainer.measure_defects();
      if (!defects.empty()) row.defect = *std::max_element(defects.begin(), defects.end());
    }
    row.steps_per_epoch = trainer.steps_per_epoch();
    rows.push_back(row);
  }
  fill_ratios(rows);
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
