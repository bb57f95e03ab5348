#include "training_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>

#include "attempts.h"

namespace stiefel::bench {

namespace {

std::unique_ptr<TrainingRun> warmed_up(const Contender& contender, const record::Config& base) {
  auto run = contender.begin_training(base);
  run->time_steps(run->warm_up_steps());
  return run;
}

void report_training(const Contender& contender, const TrainingRun& run, Row& row) {
  summarize(row);
  if (run.lacks_graph()) add_lack(row, "a CUDA graph");
  if (contender.constrained) {
    const auto defects = run.defects();
    if (!defects.empty()) row.defect = *std::max_element(defects.begin(), defects.end());
  }
  row.steps_per_epoch = run.steps_per_epoch();
}

}  // namespace

std::vector<Row> compare_training(const std::vector<Contender>& contenders, const record::Config& base,
                                  const TrainingPlan& plan,
                                  const std::function<void(const std::string&)>& progress) {
  std::vector<Row> rows;
  std::vector<size_t> able;
  for (const auto& contender : contenders) {
    Row row;
    row.workload = base.model;
    row.method = contender.name;
    row.operations = contender.operations;
    row.lacks = contender.lacks;
    if (base.precision == "bf16" && !contender.runs_in_bf16) {
      add_lack(row, "bf16");
    } else {
      able.push_back(rows.size());
    }
    rows.push_back(row);
  }
  Attempts attempts(rows);
  std::vector<std::unique_ptr<TrainingRun>> runs(rows.size());
  const auto start = [&](size_t i) {
    progress(base.model + ", " + contenders[i].name);
    attempts.make(i, [&] { runs[i] = warmed_up(contenders[i], base); });
  };
  const auto take_round = [&](size_t i) {
    if (runs[i] && !attempts.make(i, [&] { rows[i].rounds.push_back(runs[i]->time_steps(plan.steps)); })) {
      runs[i].reset();
    }
  };
  const auto report = [&](size_t i) {
    if (runs[i]) attempts.make(i, [&] { report_training(contenders[i], *runs[i], rows[i]); });
    runs[i].reset();
  };
  if (plan.rounds == 1) {
    for (const auto i : able) {
      start(i);
      take_round(i);
      report(i);
    }
  } else {
    std::mt19937_64 random(1);
    for (const auto i : able) start(i);
    for (int64_t round = 0; round < plan.rounds; ++round) {
      std::shuffle(able.begin(), able.end(), random);
      for (const auto i : able) {
        progress(fmt::format("{}, {}: {} of {}", base.model, contenders[i].name, round + 1, plan.rounds));
        take_round(i);
      }
    }
    for (const auto i : able) report(i);
  }
  attempts.require_one();
  fill_ratios(rows);
  return rows;
}

}  // namespace stiefel::bench
