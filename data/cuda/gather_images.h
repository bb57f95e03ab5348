#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

namespace stiefel::data::cuda {

/// A batch to be gathered from a data set on the GPU, images of 32×32 pixels.
struct Gathering {
  const uint8_t* pixels;    ///< the set: (N, 32·32, channels)
  const int64_t* labels;    ///< its labels (N)
  const int64_t* indices;   ///< which images, `count` of them
  const int64_t* variants;  ///< how each is flipped and shifted: a row of `sources`; null: as they are
  const int64_t* sources;   ///< (variants, 32·32): the pixel of the image that each pixel of a variant is
  const float* scale;       ///< one per channel: normalised = scale·pixel + shift
  const float* shift;
  int64_t count;
  int channels;
  bool channels_last;  ///< of `images`
  float* images;       ///< (count, channels, 32, 32)
  int64_t* chosen;     ///< the labels (count)
};

static_assert(std::is_trivially_copyable_v<Gathering> && sizeof(Gathering) == 88, "a parameter of a kernel");

/// All of it in one launch: a dozen small kernels would take longer to launch than to run.
void gather_images(const Gathering& gathering, cudaStream_t stream);

}  // namespace stiefel::data::cuda
