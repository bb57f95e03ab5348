#include "classifier.h"

#include <torch/nn/init.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <regex>
#include <stdexcept>

#include "lipschitz_net.h"
#include "small_net.h"
#include "vgg.h"
#include "wide_resnet.h"

namespace stiefel::models {

void initialize(torch::nn::Module& root) {
  const torch::NoGradGuard no_grad;
  for (const auto& module : root.modules(/*include_self=*/false)) {
    if (auto* convolution = module->as<torch::nn::Conv2dImpl>()) {
      torch::nn::init::kaiming_normal_(convolution->weight, 0, torch::kFanOut, torch::kReLU);
    } else if (auto* linear = module->as<torch::nn::LinearImpl>()) {
      torch::nn::init::zeros_(linear->bias);
    }
  }
}

std::vector<std::string> classifier_names() {
  return {"small", "vgg-13", "vgg-16", "vgg-19", "wrn-D-K", "lip-D-W", "lip-mlp-DxW"};
}

std::shared_ptr<Network> make_classifier(const std::string& name, const Shape& shape, const Layers& layers) {
  if (shape.dropout != 0 && name.rfind("wrn-", 0) != 0) {
    throw std::invalid_argument("the network '" + name + "' has no dropout; only Wide ResNets (wrn-D-K) do");
  }
  if (is_lipschitz(name)) return make_lipschitz(name, shape);
  std::shared_ptr<Network> net;
  std::smatch match;
  if (name == "small") {
    net = std::make_shared<SmallNet>(shape, layers);
  } else if (std::regex_match(name, match, std::regex("vgg-(\\d{1,3})"))) {
    net = std::make_shared<Vgg>(std::stoi(match[1]), shape, layers);
  } else if (std::regex_match(name, match, std::regex("wrn-(\\d{1,4})-(\\d{1,3})"))) {
    net = std::make_shared<WideResNet>(std::stoi(match[1]), std::stoi(match[2]), shape, layers);
  } else {
    throw std::invalid_argument("no network is called '" + name +
                                "'; there are small, vgg-13, vgg-16, vgg-19, wrn-D-K (wrn-28-10, for "
                                "example), lip-D-W (lip-6-64) and "
                                "lip-mlp-DxW (lip-mlp-8x128)");
  }
  initialize(*net);
  return net;
}

}  // namespace stiefel::models
