#pragma once

#include <functional>

namespace stiefel::bench {

/// The floating-point operations of the matrix products and solves in a piece of work.
struct Operations {
  /// A Gram matrix AAᴴ counts as the whole product, however it was computed. For a thin matrix this is the
  /// 12np² of the design, 2np² more where a step takes its second look, and whatever p×p work it did.
  double nominal = 0;
  /// What ran: a Gram matrix whose upper half was computed and mirrored counts as that half.
  double executed = 0;
};

/// Runs `work` and counts the products that LibTorch is asked for meanwhile on this thread.
Operations count_operations(const std::function<void()>& work);

}  // namespace stiefel::bench
