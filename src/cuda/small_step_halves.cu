#include "half_products.cuh"
#include "small_blocks.cuh"

// The small step on tensor cores.

namespace stiefel::cuda {

SmallForms small_forms_of_halves() { return small_forms<80>(HalfBlocks<HalfProducts>{}); }

}  // namespace stiefel::cuda
