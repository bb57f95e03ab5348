#include <zlib.h>

#include "checkpoint_support.h"

// A checkpoint behind its checksum: the input is what follows the first two lines, which are right.

namespace checkpoint_content_target {

FUZZ_TARGET(checkpoint_content) {
  const auto sum = crc32(0, reinterpret_cast<const Bytef*>(input.data()), static_cast<uInt>(input.size()));
  char line[64];
  std::snprintf(line, sizeof line, "%zu %08lx\n", input.size(), sum);
  fuzz::check_checkpoint(std::string("stiefel checkpoint 1\n") + line + std::string(input));
}

}  // namespace checkpoint_content_target
