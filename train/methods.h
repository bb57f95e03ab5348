#pragma once

#include <stiefel/parameters.h>
#include <torch/optim/optimizer.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "record/checkpoint.h"
#include "record/method_facts.h"
#include "train/resolve_config.h"

namespace stiefel::train {

using record::Optimizers;

/// A way to train, selectable by `--optim`. To add one, give it a row in the table of record/method_facts.cpp
/// and in methods() the function that makes its optimisers.
struct Method {
  const record::MethodFacts& facts;
  std::function<Optimizers(const ParameterSplit&, const Config&)> make;
};

/// One per optimiser in the table of methods, in its order.
const std::vector<Method>& methods();

/// By name; throws std::invalid_argument listing the names where there is none.
const Method& find_method(const std::string& name);

/// How often a matrix was left in place for its gradient's sake.
int64_t skipped_steps(const Optimizers& optimizers);

}  // namespace stiefel::train
