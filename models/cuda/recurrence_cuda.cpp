#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <stiefel/device_kernels.h>

#include <limits>

#include "models/recurrence_choice.h"
#include "models/recurrence_steps.h"
#include "recurrence_kernels.h"

// The kernels' passes over LibTorch's tensors. What they leave over is a handful of products and sums, all of
// them in real numbers: a complex tensor (…, n) seen as (…, 2n) reals takes real products only, and a product
// of a complex and a real matrix is one real product of half the work.

namespace stiefel::models::detail {

namespace {

namespace kernels = stiefel::models::cuda;

float* floats(const at::Tensor& t) { return static_cast<float*>(t.data_ptr()); }

/// (T, B, n) as (TB, n) or, complex, (TB, 2n).
at::Tensor rows_of(const at::Tensor& t) {
  return (t.is_complex() ? at::view_as_real(t).flatten(2) : t).flatten(0, 1);
}

/// The n×D matrix V as D×n or, complex, D×2n.
at::Tensor columns_of(const at::Tensor& v) {
  return v.is_complex() ? at::view_as_real(v).permute({1, 0, 2}).reshape({v.size(1), -1}) : v.t();
}

kernels::RecurrenceShape shape_of(const at::Tensor& inputs, const Recurrence& layer) {
  return {static_cast<int>(inputs.size(0)), static_cast<int>(inputs.size(1)),
          static_cast<int>(layer.k.size(0)), layer.k.is_complex(), layer.activation == Activation::kTanh};
}

/// The kernel for a layer on the current device; kNone where LibTorch's operators take it.
kernels::RecurrencePath path_of(const Recurrence& layer) {
  using Path = kernels::RecurrencePath;
  constexpr Path paths[] = {Path::kAny, Path::kRow, Path::kCluster, Path::kStream, Path::kNone};
  const auto choice = static_cast<size_t>(recurrence_kernel());
  const auto wanted = paths[choice];
  const int64_t n = layer.k.size(0);
  const bool one_of_ours = wanted != Path::kNone &&
                           c10::toRealValueType(layer.k.scalar_type()) == at::kFloat &&
                           n <= std::numeric_limits<int>::max();
  const auto path =
      one_of_ours ? kernels::recurrence_path(static_cast<int>(n), layer.k.is_complex(), wanted) : Path::kNone;
  TORCH_CHECK(path != Path::kNone || wanted == Path::kAny || wanted == Path::kNone,
              "stiefel: this GPU has no ", recurrence_kernel_names()[choice], " kernel for a recurrence of ",
              n, " units in ", layer.k.scalar_type(), "; choose auto");
  return path;
}

/// ∂K = Σ δᵀh̄ over the rows of δ and h.
at::Tensor outer_sum(const at::Tensor& delta, const at::Tensor& before) {
  const auto all = at::mm(rows_of(delta).t(), rows_of(before));
  if (!delta.is_complex()) return all;
  // Of (Re δ, Im δ)ᵀ(Re h, Im h): Re δh̄ = Re δ Re h + Im δ Im h, Im δh̄ = Im δ Re h − Re δ Im h.
  const int64_t n = delta.size(-1);
  const auto four = all.view({n, 2, n, 2});
  const auto part = [&](int64_t i, int64_t j) { return four.select(3, j).select(1, i); };
  return at::complex(part(0, 0) + part(1, 1), part(1, 0) - part(0, 1));
}

/// ∂V = Σ δᵀx over the rows of δ and x.
at::Tensor input_sum(const at::Tensor& delta, const at::Tensor& inputs) {
  const auto all = at::mm(rows_of(delta).t(), rows_of(inputs));
  if (!delta.is_complex()) return all;
  return at::view_as_complex(all.view({delta.size(-1), 2, -1}).transpose(1, 2).contiguous());
}

}  // namespace

bool cuda_takes(const Recurrence& layer) {
  if (!layer.k.is_cuda()) return false;
  const c10::cuda::CUDAGuard guard(layer.k.device());
  return path_of(layer) != kernels::RecurrencePath::kNone;
}

Forward forward_cuda(const at::Tensor& inputs, const Recurrence& layer, bool all_states) {
  const c10::cuda::CUDAGuard guard(layer.k.device());
  const int64_t steps = inputs.size(0), batch = inputs.size(1), n = layer.k.size(0);
  const bool one = inputs.size(2) == 1;  // then the kernel makes V x_t itself
  Forward result;
  if (one) {
    result.z = at::empty({steps, batch, n}, layer.k.options());
  } else {
    const auto vx = at::mm(rows_of(inputs), columns_of(layer.v));
    result.z = layer.k.is_complex() ? at::view_as_complex(vx.view({steps, batch, n, 2}))
                                    : vx.view({steps, batch, n});
  }
  result.states = at::empty(all_states ? at::IntArrayRef({steps, batch, n}) : at::IntArrayRef({batch, n}),
                            layer.k.options());
  const kernels::ForwardPass pass{floats(layer.k),
                                  floats(layer.b),
                                  floats(layer.h0),
                                  one ? floats(layer.v) : nullptr,
                                  one ? floats(inputs) : nullptr,
                                  floats(result.z),
                                  floats(result.states),
                                  all_states};
  C10_CUDA_CHECK(kernels::recurrence_forward(shape_of(inputs, layer), pass, path_of(layer),
                                             at::cuda::getCurrentCUDAStream().stream()));
  return result;
}

Backward backward_cuda(const at::Tensor& inputs, const Recurrence& layer, const at::Tensor& z,
                       const at::Tensor& gradient, bool all_states, bool with_inputs) {
  const c10::cuda::CUDAGuard guard(layer.k.device());
  const int64_t batch = inputs.size(1), n = layer.k.size(0);
  const bool one = inputs.size(2) == 1;
  const auto delta = at::empty_like(z), before = at::empty_like(z);
  // Sums over the batch row by row, added up below in one order.
  const auto b_rows = at::empty({batch, n}, layer.b.options());
  const auto h0_rows = at::empty({batch, n}, layer.k.options());
  const auto v_rows = one ? at::empty({batch, n}, layer.k.options()) : at::Tensor();
  const kernels::BackwardPass pass{floats(layer.k),
                                   floats(layer.b),
                                   floats(layer.h0),
                                   one ? floats(inputs) : nullptr,
                                   floats(z),
                                   floats(gradient),
                                   floats(delta),
                                   floats(before),
                                   floats(b_rows),
                                   floats(h0_rows),
                                   one ? floats(v_rows) : nullptr,
                                   all_states};
  C10_CUDA_CHECK(kernels::recurrence_backward(shape_of(inputs, layer), pass, path_of(layer),
                                              at::cuda::getCurrentCUDAStream().stream()));
  Backward result;
  result.k = outer_sum(delta, before);
  result.v = one ? v_rows.sum(0).unsqueeze(1) : input_sum(delta, inputs);
  result.b = b_rows.sum(0);
  result.h0 = h0_rows.sum(0);
  // ∂x = Re δV̄ = (Re δ, Im δ)(Re V, Im V)ᵀ.
  if (with_inputs) result.inputs = at::mm(rows_of(delta), columns_of(layer.v).t()).view(inputs.sizes());
  return result;
}

}  // namespace stiefel::models::detail
