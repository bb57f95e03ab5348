#include <stiefel/init.h>
#include <stiefel/manifold.h>
#include <stiefel/nn/parametrized.h>
#include <torch/nn/functional/conv.h>
#include <torch/nn/functional/linear.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace stiefel::nn {

namespace {

/// The entries of a row, n.
int64_t row_length(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (size_t i = 1; i < shape.size(); ++i) n *= shape[i];
  return n;
}

std::vector<int64_t> checked_shape(const torch::nn::LinearOptions& options) {
  TORCH_CHECK(options.in_features() > 0 && options.out_features() > 0,
              "stiefel: ParametrisedLinear needs inputs and outputs; got ", options.in_features(), " and ",
              options.out_features());
  return {options.out_features(), options.in_features()};
}

std::vector<int64_t> checked_shape(const torch::nn::Conv2dOptions& options) {
  TORCH_CHECK(options.groups() == 1, "stiefel: ParametrisedConv2d has one group; got groups ",
              options.groups(), ", whose kernels would each have to be orthonormal by themselves");
  const auto zeros = torch::nn::Conv2dOptions(1, 1, 1).padding_mode().index();
  TORCH_CHECK(options.padding_mode().index() == zeros,
              "stiefel: ParametrisedConv2d pads with zeros only; pad the input with "
              "torch::nn::functional::pad and set padding to 0 for another padding_mode");
  TORCH_CHECK(options.in_channels() > 0 && options.out_channels() > 0,
              "stiefel: ParametrisedConv2d needs input and output channels; got ", options.in_channels(),
              " and ", options.out_channels());
  return {options.out_channels(), options.in_channels(), (*options.kernel_size())[0],
          (*options.kernel_size())[1]};
}

}  // namespace

template <class Derived>
ParametrizedImpl<Derived>::ParametrizedImpl(std::vector<int64_t> shape, bool with_bias,
                                            Parametrization parametrization, const OmdsmOptions& omdsm)
    : shape_(std::move(shape)), with_bias_(with_bias), parametrization_(parametrization), omdsm_(omdsm) {
  // The groups say now, rather than at the first forward pass, what OMDSM cannot do.
  if (parametrization_ == Parametrization::kOmdsm) {
    omdsm_groups(shape_[0], row_length(shape_), omdsm_.group_size);
  } else {
    TORCH_CHECK(omdsm_.group_size == 0, "stiefel: group_size is OMDSM's; a ", to_string(parametrization_),
                " weight has no groups, and got group_size ", omdsm_.group_size);
  }
  ParametrizedImpl::reset();
}

template <class Derived>
void ParametrizedImpl<Derived>::reset() {
  proxy = this->register_parameter("proxy", at::zeros(shape_));
  if (parametrization_ != Parametrization::kOmdsm) {
    const int64_t p = std::min(shape_[0], row_length(shape_));
    const int64_t n = std::max(shape_[0], row_length(shape_));
    const bool phases = parametrization_ == Parametrization::kHouseholder;
    base = this->register_buffer("base", phases ? at::ones({p}) : at::eye(n));
  }
  if (with_bias_) bias = this->register_parameter("bias", at::zeros({shape_[0]}));
  reset_parameters();
}

template <class Derived>
void ParametrizedImpl<Derived>::reset_parameters() {
  const at::NoGradGuard no_grad;
  const double scale = 1 / std::sqrt(static_cast<double>(row_length(shape_)));
  if (parametrization_ == Parametrization::kOmdsm) {
    proxy.normal_(0, scale);
  } else {
    auto drawn = at::empty_like(proxy);
    set_weight(init::haar_(drawn));
  }
  if (bias.defined()) bias.uniform_(-scale, scale);
}

template <class Derived>
at::Tensor ParametrizedImpl<Derived>::weight() const {
  return orthonormal_weight(proxy, parametrization_, base, omdsm_);
}

template <class Derived>
void ParametrizedImpl<Derived>::set_weight(const at::Tensor& weight) {
  const at::NoGradGuard no_grad;
  TORCH_CHECK(weight.sizes() == proxy.sizes(), "stiefel: this layer's weight has the shape ", proxy.sizes(),
              "; got ", weight.sizes());
  const auto start = parametrized_start(weight, parametrization_);
  proxy.copy_(start.proxy);
  if (base.defined()) base.copy_(start.base);
}

template <class Derived>
double ParametrizedImpl<Derived>::defect() const {
  const at::NoGradGuard no_grad;
  const auto k = weight();
  if (parametrization_ != Parametrization::kOmdsm) return stiefel::defect(k).template item<double>();
  double worst = 0;
  int64_t row = 0;
  for (const auto size : omdsm_groups(shape_[0], row_length(shape_), omdsm_.group_size)) {
    worst = std::max(worst, stiefel::defect(k.narrow(0, row, size)).template item<double>());
    row += size;
  }
  return worst;
}

template <class Derived>
void ParametrizedImpl<Derived>::print_parametrization(std::ostream& stream) const {
  stream << ", parametrisation=" << to_string(parametrization_);
  if (omdsm_.group_size > 0) stream << ", group_size=" << omdsm_.group_size;
}

template class ParametrizedImpl<ParametrizedLinearImpl>;
template class ParametrizedImpl<ParametrizedConv2dImpl>;

ParametrizedLinearImpl::ParametrizedLinearImpl(const torch::nn::LinearOptions& options_,
                                               Parametrization parametrization, const OmdsmOptions& omdsm)
    : ParametrizedImpl(checked_shape(options_), options_.bias(), parametrization, omdsm), options(options_) {}

at::Tensor ParametrizedLinearImpl::forward(const at::Tensor& input) {
  return torch::nn::functional::linear(input, weight(), bias);
}

void ParametrizedLinearImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "stiefel::nn::ParametrisedLinear(in_features=" << options.in_features()
         << ", out_features=" << options.out_features() << ", bias=" << options.bias();
  print_parametrization(stream);
  stream << ")";
}

ParametrizedConv2dImpl::ParametrizedConv2dImpl(const torch::nn::Conv2dOptions& options_,
                                               Parametrization parametrization, const OmdsmOptions& omdsm)
    : ParametrizedImpl(checked_shape(options_), options_.bias(), parametrization, omdsm), options(options_) {}

at::Tensor ParametrizedConv2dImpl::forward(const at::Tensor& input) {
  return torch::nn::functional::conv2d(input, weight(),
                                       torch::nn::functional::Conv2dFuncOptions()
                                           .bias(bias)
                                           .stride(options.stride())
                                           .padding(options.padding())
                                           .dilation(options.dilation()));
}

void ParametrizedConv2dImpl::pretty_print(std::ostream& stream) const {
  stream << std::boolalpha << "stiefel::nn::ParametrisedConv2d(" << options.in_channels() << ", "
         << options.out_channels() << ", kernel_size=" << options.kernel_size()
         << ", stride=" << options.stride() << ", bias=" << options.bias();
  print_parametrization(stream);
  stream << ")";
}

}  // namespace stiefel::nn
