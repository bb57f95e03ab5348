#include "rms_scaling.h"

#include <torch/optim/sgd.h>
#include <torch/serialize/archive.h>

#include <string>

namespace stiefel::train {

namespace {

constexpr double kDecay = 0.9;
constexpr double kUnderRoot = 1e-5;

std::string key(size_t i) { return "squares" + std::to_string(i); }

}  // namespace

RmsScaling::RmsScaling(std::vector<at::Tensor> parameters)
    : Optimizer({torch::optim::OptimizerParamGroup(std::move(parameters))},
                std::make_unique<torch::optim::SGDOptions>(0)) {
  for (const auto& parameter : param_groups_[0].params()) {
    squares_.push_back(at::zeros_like(parameter.detach().abs()));
  }
}

at::Tensor RmsScaling::step(LossClosure closure) {
  TORCH_CHECK(!closure, "RmsScaling takes no closure");
  const at::NoGradGuard no_grad;
  const auto& parameters = param_groups_[0].params();
  for (size_t i = 0; i < parameters.size(); ++i) {
    auto gradient = parameters[i].grad();
    if (!gradient.defined()) continue;
    squares_[i].mul_(kDecay).add_(gradient.abs().square_(), 1 - kDecay);
    gradient.div_((squares_[i] + kUnderRoot).sqrt_());
  }
  return {};
}

void RmsScaling::save(torch::serialize::OutputArchive& archive) const {
  for (size_t i = 0; i < squares_.size(); ++i) archive.write(key(i), squares_[i], /*is_buffer=*/true);
}

void RmsScaling::load(torch::serialize::InputArchive& archive) {
  for (size_t i = 0; i < squares_.size(); ++i) {
    at::Tensor read;
    archive.read(key(i), read, /*is_buffer=*/true);
    TORCH_CHECK(read.sizes() == squares_[i].sizes(), "the archive's ", key(i), " has the shape ",
                read.sizes(), " instead of ", squares_[i].sizes());
    squares_[i].copy_(read);
  }
}

}  // namespace stiefel::train
