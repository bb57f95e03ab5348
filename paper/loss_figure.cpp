#include "loss_figure.h"

#include "readings.h"
#include "recipes.h"

namespace stiefel::paper {

const std::vector<std::string>& panels() {
  static const std::vector<std::string> both{"cifar10", "cifar100"};
  return both;
}

Experiment loss_figure(const std::string& name, const std::vector<std::string>& methods,
                       Experiment::Axis axis) {
  Experiment figure;
  figure.name = name;
  figure.axis = axis;
  figure.subject = "method";
  for (const auto& method : methods) {
    for (const auto& panel : panels()) {
      figure.cells.push_back(
          {method, panel, Style::kLoss, image_recipe(method, panel, "wrn-28-10"), last_train_loss, {}});
    }
  }
  return figure;
}

const std::vector<train::EpochMetrics>* history(const Results& results, const std::string& method,
                                                const std::string& panel) {
  const auto* found = results.find(method, panel);
  if (!found || found->measured.empty() || found->measured[0].history.empty()) return nullptr;
  return &found->measured[0].history;
}

}  // namespace stiefel::paper
