#pragma once

#include <stiefel/parametrizations.h>
#include <stiefel/ranks.h>
#include <torch/nn/modules/container/any.h>
#include <torch/types.h>

#include <memory>
#include <optional>
#include <utility>

namespace stiefel::models {

/// The building blocks that the networks are made of, in one place so that a comparison can exchange them for
/// every network at once.
class Layers {
 public:
  virtual ~Layers() = default;

  /// A square convolution without a bias, padded to keep the size at stride 1.
  virtual torch::nn::AnyModule convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) const;

  /// What follows a convolution: batch normalisation with scale and shift.
  virtual torch::nn::AnyModule normalization(int64_t channels) const;
};

/// Layers of the methods that constrain a network by the way it is built.
class ConstrainedLayers : public Layers {
 public:
  /// How the convolutions' weights are parametrised (not at all where empty), OMDSM's groups, whether
  /// normalisation decorrelates (DBN), and over which ranks batch normalisation takes its statistics (over
  /// its own batch alone where there are none).
  struct Choice {
    std::optional<Parametrization> weights;
    int64_t group_size = 0;
    bool decorrelated = false;
    std::shared_ptr<Ranks> ranks_of_norm = nullptr;
  };
  explicit ConstrainedLayers(Choice choice) : choice_(std::move(choice)) {}

  torch::nn::AnyModule convolution(int64_t in, int64_t out, int64_t kernel, int64_t stride) const override;
  torch::nn::AnyModule normalization(int64_t channels) const override;

 private:
  Choice choice_;
};

}  // namespace stiefel::models
