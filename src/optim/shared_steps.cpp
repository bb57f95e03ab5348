#include "shared_steps.h"

#include <algorithm>
#include <numeric>

namespace stiefel::detail {

namespace {

// Every tensor of a message begins where any type may.
constexpr int64_t kAlignment = 16;

int64_t padded(int64_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

/// The part of a message that is a tensor of `like`'s shape and type.
at::Tensor part_of(const at::Tensor& message, int64_t offset, const at::Tensor& like) {
  const auto bytes = static_cast<int64_t>(like.numel() * like.element_size());
  return message.narrow(0, offset, bytes).view(like.scalar_type()).view(like.sizes());
}

}  // namespace

void SharedSteps::assign(const std::vector<Weight>& weights) {
  std::vector<const void*> without;
  std::vector<int64_t> costs;
  for (const auto& [parameter, batched] : weights) {
    const void* key = parameter.unsafeGetTensorImpl();
    if (owners_.count(key) > 0) continue;
    without.push_back(key);
    costs.push_back(step_cost(parameter.sizes(), batched));
  }
  const auto owners = assign_owners(costs, ranks_->size(), loads_);
  for (size_t i = 0; i < without.size(); ++i) owners_[without[i]] = owners[i];
}

int64_t SharedSteps::owner(const at::Tensor& parameter) const {
  return owners_.at(parameter.unsafeGetTensorImpl());
}

at::Tensor SharedSteps::exchange(const std::vector<at::Tensor>& weights, const at::Tensor& counts) const {
  if (ranks_->size() == 1) return counts.unsqueeze(0);
  const auto bytes_of = [](const at::Tensor& t) {
    return padded(t.numel() * static_cast<int64_t>(t.element_size()));
  };
  // A rank's part of the message: its counts, then its weights.
  const auto size = static_cast<size_t>(ranks_->size());
  std::vector<int64_t> lengths(size, bytes_of(counts)), offsets;
  for (const auto& weight : weights) {
    auto& length = lengths[static_cast<size_t>(owner(weight))];
    offsets.push_back(length);
    length += bytes_of(weight);
  }
  // Gathered parts are as long as the longest. Where that is far longer than most, as with more ranks than
  // weights, a sum with zeros in the others' places sends less: twice everything, however it is divided.
  const auto longest = *std::max_element(lengths.begin(), lengths.end());
  const auto total = std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  const bool gathers = longest * ranks_->size() <= 2 * total;

  std::vector<int64_t> begins(size, 0);  // of the parts, in the message of all
  for (size_t r = 1; r < size; ++r) begins[r] = begins[r - 1] + (gathers ? longest : lengths[r - 1]);
  const auto me = static_cast<size_t>(ranks_->rank());
  const auto bytes = counts.options().dtype(at::kByte);
  auto all = gathers ? at::Tensor() : at::zeros({total}, bytes);
  const auto mine = gathers ? at::empty({longest}, bytes) : all.narrow(0, begins[me], lengths[me]);
  part_of(mine, 0, counts).copy_(counts);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (is_mine(weights[i])) part_of(mine, offsets[i], weights[i]).copy_(weights[i].detach());
  }
  if (gathers) {
    all = ranks_->gather(mine).view({-1});
  } else {
    ranks_->sum_(all);
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    if (is_mine(weights[i])) continue;
    const auto begin = begins[static_cast<size_t>(owner(weights[i]))] + offsets[i];
    weights[i].detach().copy_(part_of(all, begin, weights[i]));
  }
  std::vector<at::Tensor> of_ranks;
  for (const auto begin : begins) of_ranks.push_back(part_of(all, begin, counts));
  return at::stack(of_ranks);
}

std::string SharedSteps::broadcast(const std::string& text, int64_t from, const at::Device& device) const {
  const bool mine = from == ranks_->rank();
  // A sum in which all but one rank have zeros.
  const auto length =
      at::full({1}, mine ? static_cast<int64_t>(text.size()) : int64_t{0}, at::kLong).to(device);
  ranks_->sum_(length);
  auto bytes = at::zeros({length.item<int64_t>()}, at::kByte);
  if (mine) std::copy(text.begin(), text.end(), bytes.data_ptr<uint8_t>());
  bytes = bytes.to(device);
  ranks_->sum_(bytes);
  bytes = bytes.to(at::kCPU);
  const auto* begin = bytes.data_ptr<uint8_t>();
  return {begin, begin + bytes.numel()};
}

namespace {

/// A number that weights with the same bits have in common and others hardly do: their bits as whole numbers,
/// each times a number of its place, in a sum that has the same bits in whatever order it is taken.
at::Tensor checksum(const at::Tensor& weight) {
  auto bits = weight.detach().resolve_conj().resolve_neg().contiguous();
  if (bits.is_complex()) bits = at::view_as_real(bits);
  bits = bits.view({-1}).view(bits.element_size() == 2 ? at::kShort : at::kInt).to(at::kLong);
  const auto places = at::arange(bits.numel(), bits.options()).remainder_(1021).add_(1);
  return bits.mul_(places).sum().add_(bits.numel());
}

}  // namespace

void SharedSteps::check_equal(const std::vector<Weight>& weights) const {
  if (weights.empty()) return;
  const auto on = at::TensorOptions(at::kLong).device(weights[0].parameter.device());
  const auto count = at::full({}, static_cast<int64_t>(weights.size()), on);
  auto total = at::zeros({}, on);
  for (const auto& weight : weights) total = total * 31 + checksum(weight.parameter).to(on.device());
  const auto all = ranks_->gather(at::stack({count, total})).to(at::kCPU);
  for (int64_t rank = 1; rank < ranks_->size(); ++rank) {
    TORCH_CHECK(all[rank].equal(all[0]), "stiefel: the weights on the manifold of rank ", rank,
                " are not those of rank 0; begin with the same weights on all ranks, by the same seed or by a"
                " broadcast, before distribute()");
  }
}

}  // namespace stiefel::detail
