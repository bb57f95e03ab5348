#include "attempts.h"

#include <algorithm>

#include "train/message.h"

namespace stiefel::bench {

namespace {

Row failed_row(const Row& old, const std::string& failure) {
  Row row;
  row.workload = old.workload;
  row.method = old.method;
  row.operations = old.operations;
  row.failure = failure;
  return row;
}

std::string in_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text.empty() ? "an error without a message" : text;
}

}  // namespace

bool Attempts::make(size_t row, const std::function<void()>& work) {
  try {
    work();
    return true;
  } catch (const std::exception& error) {
    if (!first_) first_ = std::current_exception();
    rows_[row] = failed_row(rows_[row], in_one_line(train::message_of(error)));
    return false;
  }
}

void Attempts::require_one() const {
  const auto failed = [](const Row& row) { return !row.failure.empty(); };
  if (first_ && std::all_of(rows_.begin(), rows_.end(), failed)) std::rethrow_exception(first_);
}

}  // namespace stiefel::bench
