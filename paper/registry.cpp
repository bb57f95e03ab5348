#include "registry.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <stdexcept>

#include "declarations.h"

namespace stiefel::paper {

const std::vector<Experiment>& experiments() {
  static const std::vector<Experiment> all{table1(),  table2(),  table3(),   table4(),  table5(),
                                           figure1(), figure2(), theorem1(), theorem2()};
  return all;
}

const Experiment& find_experiment(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& experiment : experiments()) {
    if (experiment.name == name) return experiment;
    names.push_back(experiment.name);
  }
  throw std::invalid_argument(
      fmt::format("the paper has no '{}'; there are {} (and list, results)", name, fmt::join(names, ", ")));
}

}  // namespace stiefel::paper
