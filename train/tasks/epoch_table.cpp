#include "epoch_table.h"

#include <ATen/ATen.h>

namespace stiefel::train {

EpochTable::EpochTable(const c10::Device& device)
    : next_row_(at::zeros({1}, at::TensorOptions(at::kLong).device(device))) {}

void EpochTable::seek(int64_t epoch, int64_t step, const std::function<at::Tensor()>& make) {
  if (epoch != epoch_) {
    auto made = make();
    if (!table_.defined()) table_ = at::empty(made.sizes(), made.options().device(next_row_.device()));
    // From pinned memory a copy need not wait for the device.
    if (next_row_.is_cuda()) made = made.pin_memory();
    table_.copy_(made, /*non_blocking=*/true);
    epoch_ = epoch;
  }
  if (step != step_) next_row_.fill_(step);
  step_ = step + 1;
}

at::Tensor EpochTable::next() {
  auto row = table_.index_select(0, next_row_).squeeze(0);
  next_row_.add_(1);
  return row;
}

}  // namespace stiefel::train
