#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "run.h"
#include "workloads.h"

namespace stiefel::bench {

struct Method {
  std::string name;   ///< as it appears in --benchmark_filter
  std::string title;  ///< as it appears in the table
  bool ours = false;
  bool on_manifold = true;
  bool slow = false;  ///< not for --quick; on whole networks measured on one matrix a shape and multiplied

  std::function<std::unique_ptr<Run>(const Workload&)> begin;
};

std::vector<Method> methods(bool quick);

}  // namespace stiefel::bench
