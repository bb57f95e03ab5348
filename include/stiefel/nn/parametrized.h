#pragma once

#include <stiefel/export.h>
#include <stiefel/parametrizations.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/options/conv.h>
#include <torch/nn/options/linear.h>
#include <torch/nn/pimpl.h>

#include <ostream>
#include <vector>

/// Layers whose weight is orthonormal because it is a function of an unconstrained one. They replace
/// torch::nn::Conv2d and torch::nn::Linear, and any optimiser trains them.
namespace stiefel::nn {

/// What both layers share. The weight is computed again at every forward pass, also in evaluation: no cache
/// can go stale after a step, a load or a change of type. Where that time matters, take `weight()` once.
template <class Derived>
class STIEFEL_API ParametrizedImpl : public torch::nn::Cloneable<Derived> {
 public:
  /// Registers the parameters and buffers and draws them.
  void reset() override;

  /// Draws a weight: uniform on the manifold (Haar), or for OMDSM a Gaussian proxy whose rows have about
  /// length 1, so that its gradient has about the size of the weight's. A bias is drawn as LibTorch draws it.
  void reset_parameters();

  /// The orthonormal weight, differentiable with respect to `proxy`, in the proxy's memory format.
  at::Tensor weight() const;

  /// Starts again from an orthonormal weight. OMDSM takes the nearest that it can reach.
  void set_weight(const at::Tensor& weight);

  /// ‖KKᴴ − I‖_F of the weight on its smaller side, in double; with OMDSM the worst over its groups of rows.
  double defect() const;

  Parametrization parametrization() const { return parametrization_; }
  [[deprecated("renamed to parametrization")]] Parametrization parametrisation() const {
    return parametrization_;
  }
  const OmdsmOptions& omdsm_options() const { return omdsm_; }

  at::Tensor proxy;  ///< the parameter, of the weight's shape
  at::Tensor base;   ///< a buffer; undefined with OMDSM. See orthonormal_weight.
  at::Tensor bias;   ///< a parameter; undefined without a bias

 protected:
  ParametrizedImpl(std::vector<int64_t> shape, bool with_bias, Parametrization parametrization,
                   const OmdsmOptions& omdsm);

  /// What pretty_print says of the weight.
  void print_parametrization(std::ostream& stream) const;

 private:
  std::vector<int64_t> shape_;
  bool with_bias_;
  Parametrization parametrization_;
  OmdsmOptions omdsm_;
};

/// A linear layer y = Kx + b with an orthonormal K.
class STIEFEL_API ParametrizedLinearImpl : public ParametrizedImpl<ParametrizedLinearImpl> {
 public:
  ParametrizedLinearImpl(int64_t in_features, int64_t out_features,
                         Parametrization parametrization = Parametrization::kOmdsm)
      : ParametrizedLinearImpl(torch::nn::LinearOptions(in_features, out_features), parametrization) {}
  explicit ParametrizedLinearImpl(const torch::nn::LinearOptions& options_,
                                  Parametrization parametrization = Parametrization::kOmdsm,
                                  const OmdsmOptions& omdsm = {});

  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  torch::nn::LinearOptions options;
};

/// A convolution whose kernel, read as (out_channels, rest), is orthonormal. Zero padding only, and one
/// group.
class STIEFEL_API ParametrizedConv2dImpl : public ParametrizedImpl<ParametrizedConv2dImpl> {
 public:
  explicit ParametrizedConv2dImpl(const torch::nn::Conv2dOptions& options_,
                                  Parametrization parametrization = Parametrization::kOmdsm,
                                  const OmdsmOptions& omdsm = {});

  at::Tensor forward(const at::Tensor& input);
  void pretty_print(std::ostream& stream) const override;

  torch::nn::Conv2dOptions options;
};

TORCH_MODULE(ParametrizedLinear);
TORCH_MODULE(ParametrizedConv2d);

// The names of earlier versions.
using ParametrisedLinear [[deprecated("renamed to ParametrizedLinear")]] = ParametrizedLinear;
using ParametrisedConv2d [[deprecated("renamed to ParametrizedConv2d")]] = ParametrizedConv2d;
using ParametrisedLinearImpl [[deprecated("renamed to ParametrizedLinearImpl")]] = ParametrizedLinearImpl;
using ParametrisedConv2dImpl [[deprecated("renamed to ParametrizedConv2dImpl")]] = ParametrizedConv2dImpl;

}  // namespace stiefel::nn
