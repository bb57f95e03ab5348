#pragma once

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>
#include <torch/version.h>

#include <string>

/// What differs between LibTorch 1.13 and 2.x.
namespace stiefel {

/// The key of a parameter in an optimiser's state.
#if TORCH_VERSION_MAJOR >= 2
inline void* state_key(const at::Tensor& parameter) { return parameter.unsafeGetTensorImpl(); }
#else
inline std::string state_key(const at::Tensor& parameter) {
  return c10::guts::to_string(parameter.unsafeGetTensorImpl());
}
#endif

/// One value of an archive; throws naming the key where it is missing.
inline c10::IValue read_value(torch::serialize::InputArchive& archive, const std::string& key) {
  c10::IValue value;
  TORCH_CHECK(archive.try_read(key, value), "stiefel: the archive holds no '", key,
              "': it was not written by this optimiser, or by another version of it");
  return value;
}

}  // namespace stiefel
