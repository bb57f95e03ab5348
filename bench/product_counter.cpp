#include "product_counter.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>

#include <memory>
#include <string>

namespace stiefel::bench {

namespace {

// A callback has no argument for its owner.
thread_local Operations* counting = nullptr;

void add_product(const at::Tensor& a, const at::Tensor& b) {
  const double operations = 2.0 * static_cast<double>(a.size(0)) *
                            static_cast<double>(a.size(1) * a.size(2)) * static_cast<double>(b.size(2));
  counting->executed += operations;
  if (!a.is_alias_of(b) || a.size(1) == b.size(2)) {
    // The last panel of a Gram matrix is square too, but does not start where the matrix does.
    if (!a.is_alias_of(b) || a.storage_offset() == 0) counting->nominal += operations;
    return;
  }
  // A panel of a Gram matrix: its first rows times all, then the next rows times the rest, and so on. The
  // first, which starts where the matrix does, stands for the whole.
  const double rows = static_cast<double>(b.size(2));
  if (a.storage_offset() == 0) {
    counting->nominal += 2.0 * static_cast<double>(a.size(0) * a.size(2)) * rows * rows;
  }
}

void add_solve(const at::Tensor& a, double right_sides) {
  const double n = static_cast<double>(a.size(-1));
  const double operations = static_cast<double>(a.size(0)) * (2.0 / 3 * n * n * n + 2 * n * n * right_sides);
  counting->nominal += operations;
  counting->executed += operations;
}

std::unique_ptr<at::ObserverContext> observe(const at::RecordFunction& call) {
  if (counting == nullptr) return nullptr;
  const std::string name = call.name();
  const auto inputs = call.inputs();
  if (name == "aten::bmm") {
    add_product(inputs[0].toTensor(), inputs[1].toTensor());
  } else if (name == "aten::baddbmm" || name == "aten::baddbmm_") {
    add_product(inputs[1].toTensor(), inputs[2].toTensor());
  } else if (name == "aten::linalg_inv_ex") {
    const auto a = inputs[0].toTensor();
    add_solve(a, 2.0 / 3 * static_cast<double>(a.size(-1)));  // an inverse takes 2n³ in all
  } else if (name == "aten::linalg_solve_ex") {
    add_solve(inputs[0].toTensor(), static_cast<double>(inputs[1].toTensor().size(-1)));
  }
  return nullptr;
}

}  // namespace

Operations count_operations(const std::function<void()>& work) {
  Operations result;
  counting = &result;
  // The callback hears its own thread only, so all the work must be done there.
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&observe).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  work();
  at::removeCallback(handle);
  at::set_num_threads(threads);
  counting = nullptr;
  return result;
}

}  // namespace stiefel::bench
