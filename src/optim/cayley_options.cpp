#include <stiefel/optim/cayley_options.h>

#include "compat.h"

namespace stiefel {

void CayleyGroupOptions::visit(const Visitor& visitor) {
  GroupOptions::visit(visitor);
  visitor.number("eps", eps_);
  visitor.number("q", q_);
  visitor.integer("iterations", iterations_);
  visitor.flag("exact", exact_);
  visitor.flag("polish", polish_);
}

void CayleyGroupOptions::serialize(torch::serialize::OutputArchive& archive) const {
  GroupOptions::serialize(archive);
  archive.write("norm", c10::IValue(to_string(norm_)));
  archive.write("precision", c10::IValue(to_string(precision_)));
}

void CayleyGroupOptions::serialize(torch::serialize::InputArchive& archive) {
  GroupOptions::serialize(archive);
  norm_ = norm_from_string(read_value(archive, "norm").toStringRef());
  // Archives of the first version have none.
  if (c10::IValue value; archive.try_read("precision", value))
    precision_ = precision_from_string(value.toStringRef());
}

}  // namespace stiefel
