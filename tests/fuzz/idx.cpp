#include "data/idx.h"

#include <ATen/ATen.h>

#include <stdexcept>

#include "errors.h"
#include "memory_file.h"

// An IDX file, plain or gzipped, read as labels and as pictures of 2×3 pixels: refused by std::runtime_error,
// or the tensor that its header states, and the same when it is written and read again.

namespace idx_target {

std::string written(const at::Tensor& tensor) {
  std::string bytes{0, 0, 8, static_cast<char>(tensor.dim())};
  for (const auto size : tensor.sizes()) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(size >> shift);
  }
  return bytes.append(static_cast<const char*>(tensor.data_ptr()), tensor.nbytes());
}

void read(std::string_view input, const stiefel::data::IdxItems& items) {
  using stiefel::data::read_idx;
  const fuzz::MemoryFile file(input);
  at::Tensor tensor;
  if (!fuzz::reads<std::runtime_error>([&] { tensor = read_idx(file.path(), items); })) return;
  fuzz::require(tensor.size(0) > 0 && tensor.size(0) <= items.most, "more items than asked for");
  fuzz::require(tensor.sizes().slice(1) == at::IntArrayRef(items.each), "items of another shape");
  const fuzz::MemoryFile again(written(tensor));
  fuzz::require(at::equal(read_idx(again.path(), items), tensor), "an IDX file changes when it is written");
}

FUZZ_TARGET(idx) {
  read(input, {100, {}, "labels"});
  read(input, {100, {2, 3}, "images"});
}

}  // namespace idx_target
