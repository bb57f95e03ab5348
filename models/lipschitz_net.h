#pragma once

#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>
#include <vector>

#include "classifier.h"

namespace stiefel::models {

/// A network of mixings x ↦ Wx + b and layers that never take two inputs further apart
/// (lipschitz_layers.h). Between two images x and x′ its scores move by at most ∏‖W‖₂ ‖x − x′‖, which is
/// ‖x − x′‖ where every W is orthonormal; so a margin between scores is a proof (train/certificate.h).
/// Its weights start orthonormal under every method, and those that constrain weights keep all of them so,
/// the last layer's too.
class LipschitzNetwork : public Network {
 public:
  /// x ↦ Wx + b, the same at every pixel where x has pixels.
  struct Mixing {
    at::Tensor weight;  ///< (p, n) or (p, n, 1, 1)
    at::Tensor bias;    ///< (p); as long as what is added to an item, over all of its pixels
  };

  /// All of them in their order; the last one gives the scores.
  virtual std::vector<Mixing> mixings() const = 0;

  /// Every weight of a mixing.
  ParameterSplit split() const override;
};

/// `depth` hidden layers of `width` on the flattened image, each a mixing and a fold, and a layer of scores.
class LipschitzMlp : public LipschitzNetwork {
 public:
  LipschitzMlp(int64_t depth, int64_t width, const Shape& shape);
  torch::Tensor forward(torch::Tensor images) override;
  std::vector<Mixing> mixings() const override;

 private:
  std::vector<torch::nn::Linear> layers_;
};

/// Images without convolutions: squares of `patch` × `patch` pixels become channels, and `depth` mixings of
/// `width` channels follow, after each of them a fold and a shift of half of the channels by one place, so
/// that the next one sees the neighbors. Then the places are pooled: squares of 4×4 become channels once
/// more, of which a mixing leaves `width`; what is left of a square is learned, and the squares stay apart.
/// Two dense layers and the scores end it. Where channels grow a weight has orthonormal columns, elsewhere
/// rows.
class LipschitzNet : public LipschitzNetwork {
 public:
  /// `patch` divides 8; small ones see more of an image, in time that grows as 1/patch².
  LipschitzNet(int64_t depth, int64_t width, int64_t patch, const Shape& shape);
  torch::Tensor forward(torch::Tensor images) override;
  std::vector<Mixing> mixings() const override;

 private:
  int64_t patch_;
  std::vector<torch::nn::Conv2d> pixel_mixings_;  // the last one pools
  std::vector<torch::nn::Linear> dense_;          // the last one gives the scores
};

/// Whether the name is one of make_lipschitz.
bool is_lipschitz(const std::string& name);

/// lip-mlp-DxW, lip-D-W with patches of 4, or lip-D-W-P with patches of P. Throws std::invalid_argument where
/// the name is neither, or where the width does not suit.
std::shared_ptr<LipschitzNetwork> make_lipschitz(const std::string& name, const Shape& shape);

}  // namespace stiefel::models
