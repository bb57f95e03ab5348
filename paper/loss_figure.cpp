#include "loss_figure.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/statistics.h"
#include "paper/jobs/cell_values.h"
#include "recipes.h"

namespace stiefel::paper {

namespace {

const char* const kPanels[] = {"cifar10", "cifar100"};

}  // namespace

Experiment loss_figure(const std::string& name, const std::vector<std::string>& methods,
                       Experiment::Axis axis,
                       std::function<Verdict(const Results&, const std::string& panel)> judge_panel) {
  Experiment figure;
  figure.name = name;
  figure.axis = axis;
  figure.subject = "method";
  for (const auto& method : methods) {
    for (const auto& panel : kPanels) {
      figure.cells.push_back(
          {method, panel, Style::kLoss, image_recipe(method, panel, "wrn-28-10"), last_train_loss, {}});
    }
  }
  figure.judge = [methods, judge_panel = std::move(judge_panel)](const Results& results) -> Verdict {
    std::string missing;
    std::string held;
    for (const std::string panel : kPanels) {
      const auto empty = std::find_if(methods.begin(), methods.end(), [&](const std::string& method) {
        return histories(results, method, panel).empty();
      });
      if (empty != methods.end()) {
        if (missing.empty()) missing = fmt::format("{} on {} has not been run", *empty, panel);
        continue;
      }
      const auto verdict = judge_panel(results, panel);
      if (verdict.kind != Verdict::Kind::kBorneOut) return verdict;
      held = panel;
    }
    if (missing.empty()) return {Verdict::Kind::kBorneOut, "on both data sets"};
    return {Verdict::Kind::kOpen, missing + (held.empty() ? "" : fmt::format("; it holds on {}", held))};
  };
  return figure;
}

std::vector<const History*> histories(const Results& results, const std::string& method,
                                      const std::string& panel) {
  std::vector<const History*> found;
  const auto* cell = results.find(method, panel);
  if (!cell) return found;
  for (const auto& one : cell->measured) {
    if (!one.history.empty()) found.push_back(&one.history);
  }
  return found;
}

double mean_over_seeds(const Results& results, const std::string& method, const std::string& panel,
                       const std::function<double(const History&)>& judged) {
  std::vector<double> values;
  for (const auto* history : histories(results, method, panel)) values.push_back(judged(*history));
  return base::mean(values);
}

}  // namespace stiefel::paper
