#pragma once

#include <stiefel/parameters.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runs/checkpoint.h"
#include "runs/method_facts.h"
#include "train/resolve_config.h"

namespace stiefel::train {

using runs::Optimisers;

/// A way to train, selectable by `--optim`. To add one, give it a row in the table of runs/method_facts.cpp
/// and in methods() the function that makes its optimisers.
struct Method {
  const runs::MethodFacts& facts;
  std::function<Optimisers(const ParameterSplit&, const Config&)> make;
};

/// One per optimiser in the table of methods, in its order.
const std::vector<Method>& methods();

/// By name; throws std::invalid_argument listing the names where there is none.
const Method& find_method(const std::string& name);

/// How often a matrix was left in place for its gradient's sake.
int64_t skipped_steps(const Optimisers& optimisers);

}  // namespace stiefel::train
