#include "text.h"

#include <ATen/ATen.h>

#include "error_text.h"

namespace stiefel::distributed {

namespace {

/// On the device whose tensors the world can send.
at::Tensor bytes_for(World& world, const std::string& text) {
  const auto bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), bytes.data_ptr<uint8_t>());
  return world.backend() == "nccl" ? bytes.to(at::kCUDA) : bytes;
}

}  // namespace

std::string broadcast_text(World& world, const std::string& text) {
  const auto device = world.backend() == "nccl" ? at::kCUDA : at::kCPU;
  const auto size = at::full({1}, static_cast<int64_t>(text.size()), at::kLong).to(device);
  world.broadcast_(size);
  if (size.item<int64_t>() == 0) return {};
  const auto bytes = world.rank() == 0
                         ? bytes_for(world, text)
                         : at::empty({size.item<int64_t>()}, at::TensorOptions(at::kByte).device(device));
  world.broadcast_(bytes);
  const auto here = bytes.to(at::kCPU);
  const auto* begin = here.data_ptr<uint8_t>();
  return {begin, begin + here.numel()};
}

bool any_rank_says(World* world, bool says) {
  if (world == nullptr) return says;
  const auto device = world->backend() == "nccl" ? at::kCUDA : at::kCPU;
  const auto count = at::full({1}, says ? 1 : 0, at::kLong).to(device);
  world->ranks()->sum_(count);
  return count.item<int64_t>() > 0;
}

std::string ask_rank_0(World* world, const std::function<std::string()>& act) {
  if (world == nullptr) return act();
  std::string answer;
  if (world->rank() == 0) {
    try {
      answer = "+" + act();
    } catch (const std::exception& error) {
      answer = "-" + error_text(error);
    }
  }
  answer = broadcast_text(*world, answer);
  if (answer[0] == '-') throw SharedError(answer.substr(1));
  return answer.substr(1);
}

}  // namespace stiefel::distributed
