#include "select_method.h"

#include <stdexcept>

#include "record/method_facts.h"

namespace stiefel::train {

void select_method(Config& config, const std::string& name) {
  const auto plus = name.rfind("+m");
  const bool momentum = plus != std::string::npos && plus + 2 == name.size();
  const auto* facts = record::find_method_facts(momentum ? name.substr(0, plus) : name);
  if (facts == nullptr || (momentum && !facts->is_retraction())) {
    throw std::invalid_argument("no method is called '" + name + "'");
  }
  config.optim = facts->is_optimizer() ? facts->name : "sgd";
  if (momentum) config.momentum = 0.9;
  if (facts->family == record::MethodFamily::kPenalty) config.penalty = name;
  if (facts->family == record::MethodFamily::kParametrization) config.weights = name;
  if (facts->family == record::MethodFamily::kNormalization) config.normalization = name;
}

}  // namespace stiefel::train
