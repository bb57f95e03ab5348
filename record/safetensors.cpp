#include "safetensors.h"

#include <ATen/ATen.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace stiefel::record {

namespace {

const char* type_name(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return "F64";
    case at::kFloat:
      return "F32";
    case at::kHalf:
      return "F16";
    case at::kBFloat16:
      return "BF16";
    case at::kLong:
      return "I64";
    case at::kInt:
      return "I32";
    case at::kShort:
      return "I16";
    case at::kChar:
      return "I8";
    case at::kByte:
      return "U8";
    case at::kBool:
      return "BOOL";
    default:
      throw std::invalid_argument(std::string("safetensors has no type for ") + at::toString(type));
  }
}

}  // namespace

std::string to_safetensors(const std::vector<std::pair<std::string, at::Tensor>>& tensors,
                           const std::map<std::string, std::string>& metadata) {
  nlohmann::json header{{"__metadata__", metadata}};
  std::string data;
  for (const auto& [name, tensor] : tensors) {
    const auto plain = tensor.detach().cpu().resolve_conj().contiguous();
    const auto begin = data.size();
    data.append(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
    header[name] = {{"dtype", type_name(plain.scalar_type())},
                    {"shape", plain.sizes().vec()},
                    {"data_offsets", {begin, data.size()}}};
  }
  auto text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data begins aligned
  const uint64_t length = text.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);  // little-endian, as the format is
  return bytes + text + data;
}

}  // namespace stiefel::record
