#include "rows.h"

namespace stiefel::detail {

at::Tensor rows(const at::Tensor& t) {
  TORCH_CHECK(t.dim() >= 2, "stiefel: a matrix has at least two dimensions; got the shape ", t.sizes());
  const auto batch = t.dim() == 2 ? t.unsqueeze(0) : t.reshape({-1, t.size(-2), t.size(-1)});
  return t.size(-2) <= t.size(-1) ? batch : batch.transpose(1, 2);
}

at::Tensor unrows(const at::Tensor& batch, const at::Tensor& like) {
  return (like.size(-2) <= like.size(-1) ? batch : batch.transpose(1, 2)).reshape(like.sizes());
}

}  // namespace stiefel::detail
