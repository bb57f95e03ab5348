#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace stiefel::data::cuda {

/// A batch to be put together out of a data set that lies on the GPU, images of 32×32 pixels.
struct Gathering {
  const uint8_t* pixels;    ///< the set: (N, 32·32, channels)
  const int64_t* labels;    ///< its labels (N)
  const int64_t* indices;   ///< which images, `count` of them
  const int64_t* variants;  ///< how each is flipped and shifted, a row of `places` each; null: as they are
  const int64_t* places;    ///< (variants, 32·32): where in the image each pixel of a variant comes from
  const float* scale;       ///< a channel each: normalised = scale·pixel + shift
  const float* shift;
  int64_t count;
  int channels;
  bool channels_last;  ///< of `images`
  float* images;       ///< (count, channels, 32, 32)
  int64_t* chosen;     ///< the labels (count)
};

/// All of it in one launch: a dozen small kernels would take longer than they compute.
void gather_images(const Gathering& gathering, cudaStream_t stream);

}  // namespace stiefel::data::cuda
