#include <stiefel/optim/group_options.h>

#include <cmath>

#include "compat.h"

namespace stiefel {

std::string to_string(Manifold manifold) { return manifold == Manifold::kStiefel ? "stiefel" : "euclidean"; }

Manifold manifold_from_string(const std::string& name) {
  if (name == "stiefel") return Manifold::kStiefel;
  if (name == "euclidean") return Manifold::kEuclidean;
  TORCH_CHECK(false, "stiefel: no manifold is called '", name, "'; choose stiefel or euclidean");
}

void GroupOptions::validate() const {
  TORCH_CHECK(lr_ >= 0 && std::isfinite(lr_), "stiefel: lr must be finite and not negative; got ", lr_);
  TORCH_CHECK(weight_decay_ >= 0 && std::isfinite(weight_decay_),
              "stiefel: weight_decay must be finite and not negative; got ", weight_decay_);
  validate_method();
  TORCH_CHECK(
      manifold_ == Manifold::kEuclidean || weight_decay_ == 0, "stiefel: weight_decay is ", weight_decay_,
      " on a group of orthonormal matrices, whose length cannot decay (the projection would undo it); "
      "set it on Euclidean groups only");
}

void GroupOptions::drop_euclidean() { weight_decay_ = 0; }

void GroupOptions::visit(const Visitor& visitor) {
  visitor.number("lr", lr_);
  visitor.flag("batched", batched_);
  visitor.flag("orthonormalize_on_start", orthonormalize_on_start_);
  visitor.number("weight_decay", weight_decay_);
}

void GroupOptions::serialize(torch::serialize::OutputArchive& archive) const {
  archive.write("manifold", c10::IValue(to_string(manifold_)));
  const auto put = [&](const char* name, auto& value) { archive.write(name, c10::IValue(value)); };
  const_cast<GroupOptions*>(this)->visit({put, put, put});  // reads only
}

void GroupOptions::serialize(torch::serialize::InputArchive& archive) {
  manifold_ = manifold_from_string(read_value(archive, "manifold").toStringRef());
  visit({[&](const char* name, double& value) { value = read_value(archive, name).toDouble(); },
         [&](const char* name, int64_t& value) { value = read_value(archive, name).toInt(); },
         [&](const char* name, bool& value) { value = read_value(archive, name).toBool(); }});
}

}  // namespace stiefel
