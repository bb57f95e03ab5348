#include "step_oracle.h"
#include "target.h"

#include <ATen/Parallel.h>

// The step itself: finite gradients in, orthonormal matrices out, or counted and left.

namespace step_target {

FUZZ_TARGET(step) {
  at::set_num_threads(1);
  fuzz::Choices choices(input);
  fuzz::check_steps(choices);
}

}  // namespace step_target
