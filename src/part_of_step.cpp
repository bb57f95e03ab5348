#include "part_of_step.h"

#include <utility>

namespace stiefel::detail {

namespace {

std::vector<MatrixShape>& current() {
  thread_local std::vector<MatrixShape> shapes;
  return shapes;
}

}  // namespace

PartOfStep::PartOfStep(std::vector<MatrixShape> whole)
    : before_(std::exchange(current(), std::move(whole))) {}

PartOfStep::~PartOfStep() { current() = std::move(before_); }

const std::vector<MatrixShape>& PartOfStep::whole() { return current(); }

}  // namespace stiefel::detail
