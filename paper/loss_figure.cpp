#include "loss_figure.h"

#include <fmt/format.h>

#include <utility>

#include "readings.h"
#include "recipes.h"
#include "statistics.h"

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
    for (const auto& panel : kPanels) {
      for (const auto& method : methods) {
        if (histories(results, method, panel).empty())
          return {Verdict::Kind::kOpen, fmt::format("{} on {} has not been run", method, panel)};
      }
      const auto verdict = judge_panel(results, panel);
      if (verdict.kind != Verdict::Kind::kBorneOut) return verdict;
    }
    return {Verdict::Kind::kBorneOut, "on both data sets"};
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
  return mean(values);
}

}  // namespace stiefel::paper
