#pragma once

#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "row.h"

namespace stiefel::bench {

/// Measurements that may fail: a failure makes a row without numbers that says why, and the other rows are
/// still measured.
class Attempts {
 public:
  explicit Attempts(std::vector<Row>& rows) : rows_(rows) {}

  /// Returns whether `work` came to its end.
  bool make(size_t row, const std::function<void()>& work);

  /// Throws the first error where every row failed.
  void require_one() const;

 private:
  std::vector<Row>& rows_;
  std::exception_ptr first_;
};

}  // namespace stiefel::bench
