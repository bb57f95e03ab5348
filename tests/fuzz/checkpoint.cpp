#include "checkpoint_support.h"

// A checkpoint, first lines and all.

namespace checkpoint_target {

FUZZ_TARGET(checkpoint) { fuzz::check_checkpoint(std::string(input)); }

}  // namespace checkpoint_target
