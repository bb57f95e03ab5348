#include "gather_images.h"

namespace stiefel::data::cuda {

namespace {

constexpr int kPixels = 32 * 32;
constexpr int kThreads = 256;

/// A thread per pixel of the batch.
__global__ void gather(Gathering g) {
  const int64_t at = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const int64_t image = at / kPixels;
  const int pixel = static_cast<int>(at % kPixels);
  if (image >= g.count) return;
  const int64_t index = g.indices[image];
  const int64_t from = g.variants ? g.sources[g.variants[image] * kPixels + pixel] : pixel;
  const uint8_t* source = g.pixels + (index * kPixels + from) * g.channels;
  for (int c = 0; c < g.channels; ++c) {
    // Rounded after the product too, as LibTorch's two operators on the CPU do: every device has the same
    // batches.
    const float value = __fadd_rn(__fmul_rn(g.scale[c], static_cast<float>(source[c])), g.shift[c]);
    g.images[g.channels_last ? at * g.channels + c : (image * g.channels + c) * kPixels + pixel] = value;
  }
  if (pixel == 0) g.chosen[image] = g.labels[index];
}

}  // namespace

void gather_images(const Gathering& gathering, cudaStream_t stream) {
  const auto blocks = static_cast<unsigned>((gathering.count * kPixels + kThreads - 1) / kThreads);
  if (blocks > 0) gather<<<blocks, kThreads, 0, stream>>>(gathering);
}

}  // namespace stiefel::data::cuda
