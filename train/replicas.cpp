#include "replicas.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include "data/fingerprint.h"

namespace stiefel::train {

std::string weight_checksums(const torch::nn::Module& model) {
  std::string lines;
  for (const auto& item : model.named_parameters()) {
    lines += fmt::format("{} {:08x}\n", item.key(), data::checksum_of(item.value().detach().cpu()));
  }
  return lines;
}

void share_statistics(distributed::World& world, const torch::nn::Module& model) {
  const at::NoGradGuard no_grad;
  for (const auto& buffer : model.buffers()) {
    if (buffer.is_floating_point()) world.broadcast_(buffer);
  }
}

bool as_rank_0_says(distributed::World& world, bool chosen, const c10::Device& device) {
  const auto choice = at::full({1}, chosen ? 1 : 0, at::TensorOptions(at::kLong).device(device));
  world.broadcast_(choice);
  return choice.item<int64_t>() != 0;
}

int64_t largest_of_all(distributed::World& world, int64_t number, const c10::Device& device) {
  const auto own = at::full({1}, number, at::TensorOptions(at::kLong).device(device));
  return world.ranks()->gather(own).max().item<int64_t>();
}

}  // namespace stiefel::train
