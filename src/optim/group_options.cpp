#include <stiefel/optim/group_options.h>

#include <cmath>

#include "names.h"

namespace stiefel {

namespace {

constexpr detail::Names<Manifold, 2> kManifolds{{
    {Manifold::kStiefel, "stiefel"},
    {Manifold::kEuclidean, "euclidean"},
}};

}  // namespace

std::string to_string(Manifold manifold) { return detail::name_of(kManifolds, manifold, "manifold"); }

Manifold manifold_from_string(const std::string& name) {
  return detail::value_of(kManifolds, name, "manifold");
}

void GroupOptions::validate() const {
  TORCH_CHECK(lr_ >= 0 && std::isfinite(lr_), "stiefel: lr must be finite and not negative; got ", lr_);
  TORCH_CHECK(weight_decay_ >= 0 && std::isfinite(weight_decay_),
              "stiefel: weight_decay must be finite and not negative; got ", weight_decay_);
  TORCH_CHECK(shard_dim_ >= -1 && shard_dim_ <= 1,
              "stiefel: shard_dim must be 0 or 1, or -1 for weights that every rank has whole; got ",
              shard_dim_);
  validate_method();
  TORCH_CHECK(
      manifold_ == Manifold::kEuclidean || weight_decay_ == 0, "stiefel: weight_decay is ", weight_decay_,
      " on a group of orthonormal matrices, whose length cannot decay (the projection would undo it); "
      "set it on Euclidean groups only");
}

void GroupOptions::drop_euclidean() { weight_decay_ = 0; }

}  // namespace stiefel
