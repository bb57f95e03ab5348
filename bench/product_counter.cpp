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
thread_local const void* next_panel = nullptr;

/// Whether a holds some of the rows of square matrices.
bool is_panel_of_square(const at::Tensor& a) {
  const auto entries = static_cast<int64_t>(a.storage().nbytes() / a.element_size());
  return a.size(1) < a.size(2) && entries == a.size(0) * a.size(2) * a.size(2);
}

/// A Gram matrix, or another Hermitian product, may come in panels: its first rows times all, then the next
/// rows times the rest, and so on. The first stands for the whole; another is known by where it starts.
void add_product(const at::Tensor& a, const at::Tensor& b) {
  const double batch = static_cast<double>(a.size(0));
  const double operations =
      2.0 * batch * static_cast<double>(a.size(1) * a.size(2)) * static_cast<double>(b.size(2));
  counting->executed += operations;
  if (!a.is_alias_of(b) && !is_panel_of_square(a)) {
    counting->nominal += operations;
    return;
  }
  const auto* start = static_cast<const char*>(a.data_ptr());
  const auto rows = static_cast<double>(b.size(2));
  if (start != next_panel) counting->nominal += 2.0 * batch * static_cast<double>(a.size(2)) * rows * rows;
  const bool last = a.size(1) == b.size(2);
  next_panel = last ? nullptr : start + a.size(1) * a.stride(1) * static_cast<int64_t>(a.element_size());
}

void add_solve(const at::Tensor& a, double right_sides) {
  const double n = static_cast<double>(a.size(-1));
  const double operations = static_cast<double>(a.size(0)) * (2.0 / 3 * n * n * n + 2 * n * n * right_sides);
  counting->nominal += operations;
  counting->executed += operations;
}

// LibTorch 1 inverts by a solve, which is recorded too and must not count twice.
thread_local bool inverting = false;

struct Inverting : at::ObserverContext {
  Inverting() { inverting = true; }
  ~Inverting() override { inverting = false; }
};

std::unique_ptr<at::ObserverContext> observe(const at::RecordFunction& call) {
  if (counting == nullptr || inverting) return nullptr;
  const std::string name = call.name();
  const auto inputs = call.inputs();
  if (name == "aten::bmm") {
    add_product(inputs[0].toTensor(), inputs[1].toTensor());
  } else if (name == "aten::baddbmm" || name == "aten::baddbmm_") {
    add_product(inputs[1].toTensor(), inputs[2].toTensor());
  } else if (name == "aten::linalg_inv_ex") {
    const auto a = inputs[0].toTensor();
    add_solve(a, 2.0 / 3 * static_cast<double>(a.size(-1)));  // an inverse takes 2n³ in all
    return std::make_unique<Inverting>();
  } else if (name == "aten::linalg_solve_ex") {
    add_solve(inputs[0].toTensor(), static_cast<double>(inputs[1].toTensor().size(-1)));
  }
  return nullptr;
}

}  // namespace

Operations count_operations(const std::function<void()>& work) {
  Operations result;
  counting = &result;
  // The callback is called for its own thread only, so all the work must be done there.
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
