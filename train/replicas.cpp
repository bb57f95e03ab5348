#include "replicas.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/printable.h"
#include "data/catalog.h"
#include "data/places.h"

namespace stiefel::train {

void require_same_data(distributed::World& world, const data::Fingerprint& own, const Config& config,
                       const c10::Device& device) {
  const std::vector<int64_t> numbers{own.train.images, own.train.pixels, own.train.labels,
                                     own.test.images,  own.test.pixels,  own.test.labels};
  const auto all = world.ranks()->gather(at::tensor(numbers, at::kLong).to(device)).cpu();
  const auto of_rank = [&](int64_t rank) {
    const auto row = all[rank];
    const auto number = [&](int64_t i) { return row[i].item<int64_t>(); };
    const auto part = [&](int64_t i) {
      return data::Fingerprint::Part{number(i), static_cast<uint32_t>(number(i + 1)),
                                     static_cast<uint32_t>(number(i + 2))};
    };
    return data::Fingerprint{part(0), part(3)};
  };
  for (int64_t rank = 1; rank < world.size(); ++rank) {
    const auto different = data::changes(of_rank(0), of_rank(rank));
    if (different.empty()) continue;
    // Rank 0 reports this for all, so the folder named is its own.
    throw distributed::SharedError(
        fmt::format("the ranks differ in the data: rank {} has {}; rank 0 found {} in {}: give every rank "
                    "the same files, "
                    "by --data-dir (data-dir in the config.toml of a run) or STIEFEL_DATA",
                    rank, fmt::join(different, ", "), config.data,
                    base::printable(data::locate(data::facts_of(config.data), config.data_dir))));
  }
}

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
