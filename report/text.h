#pragma once

#include <string>

namespace stiefel::report {

/// The title of a method or a data set: "cayley-sgd" is Cayley SGD, "fashion-mnist" Fashion-MNIST. Other
/// names stay as they are.
std::string display_name(const std::string& name);

}  // namespace stiefel::report
