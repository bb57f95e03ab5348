#pragma once

#include <ATen/ATen.h>

namespace stiefel::detail {

/// E = XᴴX − I where it stands out of the rounding of its own measurement; zeros where it does not.
///
/// A step's rounding adds some 0.3u√p to ‖E‖_F, as steps of a random walk; E as computed is off by 1.2 to
/// 2u√p itself. So taking it off at every step is correcting by noise, at an eighth of the step's time. For
/// large matrices on the CPU a look at XᴴXV − V, V of four columns of signs, tells at a fiftieth of the price
/// whether ‖E‖_F is below 4u√p: E‖Ev‖² = ‖E‖²_F for random signs v. The look itself is off by 3u√p.
at::Tensor visible_drift(const at::Tensor& x);

}  // namespace stiefel::detail
