#include "packed_sum.h"

#include <utility>

namespace stiefel::detail {

void PackedSum::add_part(const at::Tensor& part, std::function<void(const at::Tensor&)> take) {
  const auto plain = part.resolve_conj().resolve_neg();
  if (plain.is_complex()) {
    const auto real = at::view_as_real(plain.contiguous());
    parts_.push_back(real.reshape({-1}));
    // A copy, since a view of the message may begin at an odd number.
    takers_.push_back([take = std::move(take), sizes = real.sizes().vec(),
                       shape = part.sizes().vec()](const at::Tensor& sum) {
      take(at::view_as_complex(sum.clone().view(sizes)).view(shape));
    });
    return;
  }
  parts_.push_back(plain.reshape({-1}));
  takers_.push_back(
      [take = std::move(take), shape = part.sizes().vec()](const at::Tensor& sum) { take(sum.view(shape)); });
}

void PackedSum::add(at::Tensor& tensor) {
  add_part(tensor, [&tensor](const at::Tensor& sum) { tensor = sum; });
}

void PackedSum::add_hermitian(at::Tensor& matrices) {
  const int64_t batch = matrices.size(0), p = matrices.size(1);
  const auto indices = at::triu_indices(p, p, 0, at::TensorOptions(at::kLong).device(matrices.device()));
  const auto upper = indices[0] * p + indices[1];
  add_part(matrices.reshape({batch, p * p}).index_select(1, upper),
           [&matrices, upper, batch, p](const at::Tensor& sum) {
             auto full = at::zeros({batch, p * p}, sum.options());
             full.index_copy_(1, upper, sum);
             full = full.view({batch, p, p});
             matrices = full + full.triu(1).mH();
           });
}

void PackedSum::add_doubles(at::Tensor& numbers, at::ScalarType type) {
  if (type == at::kDouble) return add(numbers);
  const auto high = numbers.to(type);
  const auto low = (numbers - high).to(type);
  add_part(at::stack({high, low}), [&numbers](const at::Tensor& sum) {
    const auto wide = sum.to(at::kDouble);
    numbers = wide[0] + wide[1];
  });
}

void PackedSum::run(Ranks& ranks) {
  if (parts_.empty()) return;
  const auto message = at::cat(parts_);
  ranks.sum_(message);
  int64_t at = 0;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const auto length = parts_[i].numel();
    takers_[i](message.narrow(0, at, length));
    at += length;
  }
  parts_.clear();
  takers_.clear();
}

}  // namespace stiefel::detail
