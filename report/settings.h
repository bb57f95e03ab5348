#pragma once

#include <string>
#include <vector>

#include "report/run_folder.h"

namespace stiefel::report {

/// A key and its value in each run; "" in `values` with false in `present` where a run does not have the key.
struct Setting {
  std::string key;
  std::vector<std::string> values;
  std::vector<bool> present;
  std::vector<bool> idle;  ///< the run has it, and it changed nothing there

  /// Whether two runs in which it counts have different values.
  bool differs() const;
  /// Whether it changed nothing in any run.
  bool is_idle() const;
  /// The value that most of the runs in which it counts share (the first of them where several do equally).
  std::string usual() const;
};

/// Every key of every run, in the order in which they first appear.
std::vector<Setting> gather_settings(const std::vector<RunFolder>& runs);

}  // namespace stiefel::report
