#include "network_workload.h"

#include <torch/nn/modules/batchnorm.h>

#include <algorithm>
#include <memory>

#include "models/classifier.h"

namespace stiefel::bench {

namespace {

/// Batch normalisation that records the shape of its input.
class RecordingNormImpl : public torch::nn::Module {
 public:
  RecordingNormImpl(int64_t channels, std::vector<std::vector<int64_t>>& shapes)
      : norm_(register_module("norm", torch::nn::BatchNorm2d(channels))), shapes_(shapes) {}
  torch::Tensor forward(const torch::Tensor& x) {
    shapes_.push_back(x.sizes().vec());
    return norm_->forward(x);
  }

 private:
  torch::nn::BatchNorm2d norm_;
  std::vector<std::vector<int64_t>>& shapes_;
};

class RecordingLayers : public models::Layers {
 public:
  explicit RecordingLayers(std::vector<std::vector<int64_t>>& shapes) : shapes_(shapes) {}
  torch::nn::AnyModule normalization(int64_t channels) const override {
    return torch::nn::AnyModule(std::make_shared<RecordingNormImpl>(channels, shapes_));
  }

 private:
  std::vector<std::vector<int64_t>>& shapes_;
};

}  // namespace

NetworkWorkload network_workload(const std::string& model) {
  std::vector<std::vector<int64_t>> shapes;
  const auto network = models::make_classifier(model, {3, 10, 0}, RecordingLayers(shapes));
  NetworkWorkload result{{model, model, {}}, {}};
  for (const auto& weight : network->split().manifold) {
    auto& layers = result.weights.layers;
    const auto sizes = weight.sizes().vec();
    const auto same =
        std::find_if(layers.begin(), layers.end(), [&](const Layer& layer) { return layer.sizes == sizes; });
    if (same == layers.end()) {
      layers.push_back({sizes});
    } else {
      ++same->count;
    }
  }
  network->eval();
  const torch::NoGradGuard no_grad;
  network->forward(torch::zeros({1, 3, 32, 32}));
  for (const auto& shape : shapes) {
    auto& all = result.activations;
    const auto same = std::find_if(all.begin(), all.end(), [&](const Activation& a) {
      return a.channels == shape[1] && a.height == shape[2] && a.width == shape[3];
    });
    if (same == all.end()) {
      all.push_back({shape[1], shape[2], shape[3], 1});
    } else {
      ++same->count;
    }
  }
  return result;
}

}  // namespace stiefel::bench
