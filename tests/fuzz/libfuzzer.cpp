#include <cstddef>
#include <cstdint>

#include "target.h"

/// What libFuzzer calls with each input; a fuzzer has one target.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fuzz::targets().front().run({reinterpret_cast<const char*>(data), size});
  return 0;
}
