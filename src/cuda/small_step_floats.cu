#include "float_products.cuh"
#include "small_blocks.cuh"

// The small step without tensor cores, for cards before Ampere.

namespace stiefel::cuda {

SmallForms small_forms_of_floats() { return small_forms<75>(FloatBlocks<FloatProducts>{}); }

}  // namespace stiefel::cuda
