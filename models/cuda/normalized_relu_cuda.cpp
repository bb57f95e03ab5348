#include <ATen/ATen.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/modules/batchnorm.h>

#include <limits>
#include <map>
#include <mutex>

#include "models/normalized_relu_fused.h"
#include "normalized_relu_kernels.h"

namespace stiefel::models::detail {

namespace {

namespace kernels = stiefel::models::cuda::relu;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using torch::nn::BatchNorm2dImpl;

constexpr auto kLast = at::MemoryFormat::ChannelsLast;

float* floats(const at::Tensor& t) { return t.data_ptr<float>(); }

bool is_aligned(const at::Tensor& t) { return reinterpret_cast<uintptr_t>(t.data_ptr()) % 16 == 0; }

/// The kernels load and store 16 bytes at a time; so does cuDNN, which ends the program where it cannot.
at::Tensor aligned(const at::Tensor& t) { return is_aligned(t) ? t : t.clone(); }

bool fits(const at::Tensor& x, bool pooled) {
  return x.is_cuda() && (x.scalar_type() == at::kFloat || x.scalar_type() == at::kBFloat16) && x.dim() == 4 &&
         x.is_contiguous(kLast) && x.numel() <= std::numeric_limits<int>::max() && x.numel() > x.size(1) &&
         kernels::normalized_relu_fits(static_cast<int>(x.size(1))) &&
         (!pooled || (x.size(2) % 2 == 0 && x.size(3) % 2 == 0));
}

/// What does not fit goes to LibTorch's operators, which say what is wrong with it.
bool fits(const BatchNorm2dImpl& norm, const at::Tensor& x) {
  if (!norm.is_training() || !norm.options.affine() || !norm.options.track_running_stats() ||
      !norm.options.momentum().has_value()) {
    return false;
  }
  for (const auto& t : {norm.weight, norm.bias, norm.running_mean, norm.running_var}) {
    if (t.device() != x.device() || t.scalar_type() != at::kFloat || t.numel() != x.size(1) ||
        !t.is_contiguous() || !is_aligned(t)) {
      return false;
    }
  }
  return norm.num_batches_tracked.device() == x.device() &&
         norm.num_batches_tracked.scalar_type() == at::kLong;
}

bool alike(const at::Tensor& x, const at::Tensor& other) {
  return other.sizes() == x.sizes() && other.scalar_type() == x.scalar_type() &&
         other.device() == x.device() && other.is_contiguous(kLast);
}

/// A gradient as the kernels take it.
at::Tensor arranged(const at::Tensor& gradient) { return aligned(gradient.contiguous(kLast)); }

kernels::ReluShape shape_of(const at::Tensor& x, bool pooled) {
  return {static_cast<int>(x.numel() / x.size(1)), static_cast<int>(x.size(1)), static_cast<int>(x.size(3)),
          pooled, x.scalar_type() == at::kBFloat16};
}

/// Zeros that every launch leaves as zeros, so that one set serves all launches that follow one another:
/// those made on a stream, recorded ones included as long as nothing else runs there while they are replayed.
unsigned* counters(const c10::cuda::CUDAStream& stream) {
  static std::mutex mutex;
  // Never freed: at the program's end the driver may be gone already.
  static auto& of_streams = *new std::map<std::pair<int, cudaStream_t>, at::Tensor>;
  const std::lock_guard<std::mutex> lock(mutex);
  auto& zeros = of_streams[{stream.device_index(), stream.stream()}];
  if (!zeros.defined()) {
    // Recorded, they would be zero only once the graph is replayed.
    TORCH_CHECK(c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None,
                "stiefel: take one step before it is captured into a CUDA graph");
    zeros = at::zeros({kernels::kCounters}, at::TensorOptions(at::kInt).device(stream.device()));
  }
  return reinterpret_cast<unsigned*>(zeros.data_ptr<int>());
}

at::Tensor partial_sums(const kernels::ReluShape& shape, const at::TensorOptions& options) {
  return at::empty({static_cast<int64_t>(kernels::partial_floats(shape))}, options);
}

/// Outputs relu(norm(x)), and x + addend where there is an addend.
class NormalizedRelu : public torch::autograd::Function<NormalizedRelu> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x,
                               const std::optional<at::Tensor>& addend, const at::Tensor& weight,
                               const at::Tensor& bias, const BatchNorm2dImpl* norm, bool pooled) {
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = at::cuda::getCurrentCUDAStream();
    const auto shape = shape_of(x, pooled);
    const auto options = weight.options().requires_grad(false);
    const auto partial = partial_sums(shape, options);
    const auto statistics = at::empty({3, x.size(1)}, options);
    const auto sum = addend ? at::empty_like(x) : at::Tensor();
    const int64_t shrink = pooled ? 2 : 1;
    const auto out = at::empty({x.size(0), x.size(1), x.size(2) / shrink, x.size(3) / shrink},
                               x.options().requires_grad(false).memory_format(kLast));
    const kernels::ReluForward pass{x.data_ptr(),
                                    addend ? addend->data_ptr() : nullptr,
                                    addend ? sum.data_ptr() : nullptr,
                                    floats(weight),
                                    floats(bias),
                                    static_cast<float>(*norm->options.momentum()),
                                    static_cast<float>(norm->options.eps()),
                                    floats(norm->running_mean),
                                    floats(norm->running_var),
                                    norm->num_batches_tracked.data_ptr<int64_t>(),
                                    floats(statistics),
                                    out.data_ptr(),
                                    floats(partial),
                                    counters(stream)};
    C10_CUDA_CHECK(kernels::normalized_relu_forward(shape, pass, stream.stream()));
    context->save_for_backward({addend ? sum : x, bias, statistics});
    context->saved_data["pooled"] = pooled;
    context->saved_data["added"] = addend.has_value();
    context->set_materialize_grads(false);
    if (!addend) return {out};
    return {out, sum};
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(), "stiefel: a normalised ReLU can be differentiated once");
    const auto saved = context->get_saved_variables();
    const auto &x = saved[0], &bias = saved[1], &statistics = saved[2];
    const bool pooled = context->saved_data["pooled"].toBool();
    const bool added = context->saved_data["added"].toBool();
    const auto of_sum = added && gradients[1].defined() ? arranged(gradients[1]) : at::Tensor();
    // Where only the sum was used the ReLU has nothing to add.
    if (!gradients[0].defined()) return {of_sum, of_sum, {}, {}, {}, {}};
    const auto gradient = arranged(gradients[0]);
    const c10::cuda::CUDAGuard guard(x.device());
    const auto stream = at::cuda::getCurrentCUDAStream();
    const auto shape = shape_of(x, pooled);
    const auto partial = partial_sums(shape, statistics.options());
    const auto coefficients = at::empty({2, x.size(1)}, statistics.options());
    const auto x_gradient = at::empty_like(x);
    const auto weight_gradient = at::empty({x.size(1)}, statistics.options());
    const auto bias_gradient = at::empty_like(weight_gradient);
    const kernels::ReluBackward pass{x.data_ptr(),
                                     floats(bias),
                                     floats(statistics),
                                     gradient.data_ptr(),
                                     of_sum.defined() ? of_sum.data_ptr() : nullptr,
                                     x_gradient.data_ptr(),
                                     floats(weight_gradient),
                                     floats(bias_gradient),
                                     floats(coefficients),
                                     floats(partial),
                                     counters(stream)};
    C10_CUDA_CHECK(kernels::normalized_relu_backward(shape, pass, stream.stream()));
    return {x_gradient, added ? x_gradient : at::Tensor(), weight_gradient, bias_gradient, {}, {}};
  }
};

}  // namespace

std::optional<SumAndRelu> fused_relu(const torch::nn::AnyModule& norm, const Terms& terms, bool pooled) {
  const auto& [branch, addend] = terms;
  if (!fits(branch, pooled) || (addend.defined() && !alike(branch, addend))) return std::nullopt;
  const auto module = norm.ptr();
  const auto* batch_norm = module->as<BatchNorm2dImpl>();
  if (batch_norm == nullptr || !fits(*batch_norm, branch)) return std::nullopt;
  const auto x = aligned(branch);
  const auto other = addend.defined() ? std::optional<at::Tensor>(aligned(addend)) : std::nullopt;
  const auto outputs =
      NormalizedRelu::apply(x, other, batch_norm->weight, batch_norm->bias, batch_norm, pooled);
  return SumAndRelu{addend.defined() ? outputs[1] : x, outputs[0]};
}

}  // namespace stiefel::models::detail
