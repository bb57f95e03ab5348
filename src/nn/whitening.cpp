#include "whitening.h"

#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <utility>

#include "algebra.h"
#include "inverse_root.h"

namespace stiefel::nn {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Values that fit in a core's cache while they are centred and multiplied, or mapped and copied.
constexpr int64_t kStatisticsChunk = int64_t{1} << 17;
constexpr int64_t kMapChunk = int64_t{1} << 19;

bool is_channels_last(const at::Tensor& t) {
  return t.suggest_memory_format() == at::MemoryFormat::ChannelsLast;
}

/// The channels of a part.
at::Tensor narrow(const at::Tensor& t, const ChannelGroups& part) {
  return part.channels() == t.size(1) ? t : t.narrow(1, part.first, part.channels());
}

/// Channels-last activations as (NHW, g, s), and any as (N, g, s, HW): views where the layout allows.
at::Tensor places(const at::Tensor& t, const ChannelGroups& part) {
  return t.permute({0, 2, 3, 1}).reshape({-1, part.groups, part.size});
}
at::Tensor planes(const at::Tensor& t, const ChannelGroups& part) {
  return t.reshape({t.size(0), part.groups, part.size, t.size(2) * t.size(3)});
}

/// Calls `work` with ranges of samples of about `values` values each. On an accelerator all are one range.
void over_samples(const at::Tensor& t, int64_t values, const std::function<void(int64_t, int64_t)>& work) {
  const int64_t samples = t.size(0);
  const int64_t each = std::max<int64_t>(1, values / std::max<int64_t>(1, t.numel() / samples));
  const int64_t step = t.is_cpu() ? each : samples;
  for (int64_t i = 0; i < samples; i += step) work(i, std::min(step, samples - i));
}

/// Σ over places of a bᵀ for each group, (g, s, s). One long product a group where the threads of a CPU read
/// channels-last memory as it lies; a product a sample otherwise, which an accelerator can spread.
at::Tensor cross(const at::Tensor& a, const at::Tensor& b, const ChannelGroups& part) {
  if (a.is_cpu() && is_channels_last(a) && is_channels_last(b)) {
    return at::bmm(places(narrow(a, part), part).permute({1, 2, 0}),
                   places(narrow(b, part), part).transpose(0, 1));
  }
  return at::matmul(planes(narrow(a, part), part), planes(narrow(b, part), part).mT()).sum(0);
}

/// y = Wx + b for one part, in x's layout, on activations of that part alone. A grouped 1×1 convolution is
/// the fastest for channels-last memory on the CPU; on an accelerator it might round to TF32.
at::Tensor map_part(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b,
                    const ChannelGroups& part) {
  if (!is_channels_last(x)) {
    return at::matmul(w, planes(x, part)).view(x.sizes()).add_(b.view({-1, 1, 1}));
  }
  if (x.is_cpu()) {
    return at::conv2d(x, w.reshape({part.channels(), part.size, 1, 1}), b, 1, at::IntArrayRef({0}), 1,
                      part.groups);
  }
  const auto y = at::bmm(places(x, part).transpose(0, 1), w.mT()).transpose(0, 1);
  return (y.reshape({-1, part.channels()}) + b)
      .view({x.size(0), x.size(2), x.size(3), part.channels()})
      .permute({0, 3, 1, 2});
}

/// Symmetric matrices W and biases of all parts, in the type of the activations.
struct GroupMap {
  std::vector<at::Tensor> matrices;
  std::vector<at::Tensor> biases;

  void push(const at::Tensor& matrix, const at::Tensor& bias, at::ScalarType type) {
    matrices.push_back(matrix.to(type));
    biases.push_back(bias.flatten().to(type));
  }
};

class Whiten : public torch::autograd::Function<Whiten> {
 public:
  /// Reads the activations three times (mean, covariance, map) and writes them once. Covariances of centred
  /// values are products in the activations' own type over a chunk, and sums in double over the chunks; all
  /// the rest on s×s matrices is in double.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& gamma,
                               const at::Tensor& beta, int64_t group_size, double eps) {
    const auto parts = channel_groups(x.size(1), group_size);
    const auto mean = x.mean(at::IntArrayRef({0, 2, 3}));
    auto sigmas = zero_blocks(parts, x);
    over_samples(x, kStatisticsChunk, [&](int64_t first, int64_t count) {
      const auto centered = x.narrow(0, first, count) - mean.view({-1, 1, 1});
      for (size_t i = 0; i < parts.size(); ++i) sigmas[i] += cross(centered, centered, parts[i]);
    });

    variable_list saved{x, gamma, mean};
    auto whitening = at::zeros({x.size(1), std::min(group_size, x.size(1))}, x.options());
    GroupMap map;
    for (size_t i = 0; i < parts.size(); ++i) {
      auto sigma = sigmas[i].div_(places_of(x));
      detail::add_diagonal_(sigma, eps);
      const auto root = safe_root(sigma);
      parts[i].blocks(whitening).copy_(root.root);
      // Y = (γP)X + (β − γPμ): the centring goes into the bias, as in LibTorch's own batch norm.
      const auto matrix = root.root * parts[i].vector(gamma).unsqueeze(-1);
      const auto shift = at::matmul(matrix, parts[i].vector(mean).to(at::kDouble).unsqueeze(-1));
      const auto bias = parts[i].vector(beta) - shift.squeeze(-1);
      map.push(matrix, bias, x.scalar_type());
      saved.insert(saved.end(), {root.root, root.vectors, root.values});
    }

    auto y = at::empty_like(x);
    over_samples(x, kMapChunk, [&](int64_t first, int64_t count) {
      const auto out = y.narrow(0, first, count);
      const auto in = x.narrow(0, first, count);
      for (size_t i = 0; i < parts.size(); ++i) {
        narrow(out, parts[i]).copy_(map_part(narrow(in, parts[i]), map.matrices[i], map.biases[i], parts[i]));
      }
    });
    ctx->save_for_backward(saved);
    ctx->saved_data["group_size"] = group_size;
    ctx->mark_non_differentiable({mean, whitening});
    return {y, mean, whitening};
  }

  /// Reads dY and X twice each and writes dX once. With A = dY X_cᵀ, the only product of whole activations,
  ///
  ///     dγ = the row sums of A ∘ P,  dβ = Σ dY,  dP = γA,  dΣ from dP,
  ///     dX_c = Pγ dY + (2/m) dΣ X_c,  dX = dX_c − its mean = Pγ(dY − mean dY) + (2/m) dΣ(X − μ).
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "stiefel: DecorrelatedBatchNorm2d can be differentiated once only in training");
    const auto saved = ctx->get_saved_variables();
    const auto& x = saved[0];
    const auto& gamma = saved[1];
    const auto& mean = saved[2];
    const auto dy = gradients[0].contiguous(x.suggest_memory_format());
    const int64_t group_size = ctx->saved_data["group_size"].toInt();
    const auto parts = channel_groups(x.size(1), group_size);
    const double m = places_of(x);

    auto products = zero_blocks(parts, x);
    auto d_beta = at::zeros({x.size(1)}, x.options().dtype(at::kDouble));
    over_samples(x, kStatisticsChunk, [&](int64_t first, int64_t count) {
      const auto centered = x.narrow(0, first, count) - mean.view({-1, 1, 1});
      const auto d = dy.narrow(0, first, count);
      d_beta += d.sum(at::IntArrayRef({0, 2, 3}));
      for (size_t i = 0; i < parts.size(); ++i) products[i] += cross(d, centered, parts[i]);
    });

    auto d_gamma = at::empty_like(d_beta);
    GroupMap of_dy;
    GroupMap of_x;
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto& root = saved[3 + 3 * i];
      const auto scale = parts[i].vector(gamma);
      parts[i].vector(d_gamma).copy_((products[i] * root).sum(-1));
      const auto d_root = products[i] * scale.unsqueeze(-1);
      const auto matrix = root * scale.unsqueeze(-2);
      const auto d_sigma =
          detail::inverse_root_backward(saved[4 + 3 * i], saved[5 + 3 * i], d_root).mul_(2 / m);
      const auto off = at::matmul(matrix, parts[i].vector(d_beta).unsqueeze(-1) / m);
      of_dy.push(matrix, off.neg(), x.scalar_type());
      of_x.push(d_sigma, at::matmul(d_sigma, parts[i].vector(mean).to(at::kDouble).unsqueeze(-1)).neg(),
                x.scalar_type());
    }

    auto dx = at::empty_like(x);
    over_samples(x, kMapChunk, [&](int64_t first, int64_t count) {
      for (size_t i = 0; i < parts.size(); ++i) {
        const auto slice = [&](const at::Tensor& t) { return narrow(t.narrow(0, first, count), parts[i]); };
        auto sum = map_part(slice(dy), of_dy.matrices[i], of_dy.biases[i], parts[i]);
        sum += map_part(slice(x), of_x.matrices[i], of_x.biases[i], parts[i]);
        slice(dx).copy_(sum);
      }
    });
    return {dx, d_gamma.to(gamma.scalar_type()), d_beta.to(gamma.scalar_type()), {}, {}};
  }

 private:
  /// m = NHW.
  static double places_of(const at::Tensor& x) { return static_cast<double>(x.numel() / x.size(1)); }

  static std::vector<at::Tensor> zero_blocks(const std::vector<ChannelGroups>& parts, const at::Tensor& x) {
    std::vector<at::Tensor> result;
    for (const auto& part : parts) {
      result.push_back(at::zeros({part.groups, part.size, part.size}, x.options().dtype(at::kDouble)));
    }
    return result;
  }

  /// Σ^(−½), and NaN for a group that is not finite, which the decomposition would refuse.
  static detail::InverseRoot safe_root(const at::Tensor& sigma) {
    const auto bad = at::isfinite(sigma).flatten(1).all(1).logical_not().view({-1, 1, 1});
    const auto identity = at::eye(sigma.size(1), sigma.options());
    auto result = detail::inverse_root(at::where(bad, identity, sigma));
    result.root.masked_fill_(bad, std::numeric_limits<double>::quiet_NaN());
    return result;
  }
};

}  // namespace

at::Tensor ChannelGroups::vector(const at::Tensor& t) const {
  return t.narrow(0, first, channels()).view({groups, size});
}

at::Tensor ChannelGroups::blocks(const at::Tensor& t) const {
  return t.narrow(0, first, channels()).view({groups, size, t.size(1)}).narrow(2, 0, size);
}

std::vector<ChannelGroups> channel_groups(int64_t channels, int64_t group_size) {
  const int64_t size = std::min(channels, group_size);
  const int64_t full = channels / size;
  std::vector<ChannelGroups> parts{{0, full, size}};
  const int64_t rest = channels - full * size;
  if (rest > 0) parts.push_back({full * size, 1, rest});
  return parts;
}

Whitened whiten(const at::Tensor& input, const at::Tensor& gamma, const at::Tensor& beta, int64_t group_size,
                double eps) {
  const auto x = input.contiguous(input.suggest_memory_format());
  const std::vector<int64_t> c{x.size(1)};
  auto result = Whiten::apply(x, gamma.defined() ? gamma : at::ones(c, x.options()),
                              beta.defined() ? beta : at::zeros(c, x.options()), group_size, eps);
  return {result[0], result[1], result[2]};
}

at::Tensor map_groups(const at::Tensor& input, const at::Tensor& matrix, const at::Tensor& bias,
                      int64_t group_size) {
  std::vector<at::Tensor> outputs;
  for (const auto& part : channel_groups(input.size(1), group_size)) {
    outputs.push_back(map_part(narrow(input, part), part.blocks(matrix), part.vector(bias).flatten(), part));
  }
  return outputs.size() == 1 ? outputs[0] : at::cat(outputs, 1);
}

}  // namespace stiefel::nn
