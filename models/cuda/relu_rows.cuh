#pragma once

#include <type_traits>

#include "channel_sums.cuh"
#include "launch.cuh"

/// What the passes of a normalised ReLU do with a pixel's channels, and how they divide the pixels.
namespace stiefel::models::cuda::relu {

/// Calls act(row, load_row(row)) for the thread's rows of `count`, `kAtOnce` loads at a time.
template <int kAtOnce, class Load, class Act>
__device__ void for_rows(int count, const ThreadIndex& thread, Load load_row, Act act) {
  using Row = decltype(load_row(0));
  const int step = thread.step;
  for (int row = thread.first; row < count; row += kAtOnce * step) {
    Row rows[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (row + i * step < count) rows[i] = load_row(row + i * step);
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (row + i * step < count) act(row + i * step, rows[i]);
    }
  }
}

/// The same from the last row to the first: after a pass over all rows the caches hold the last ones.
template <int kAtOnce, class Load, class Act>
__device__ void for_rows_backwards(int count, const ThreadIndex& thread, Load load_row, Act act) {
  for_rows<kAtOnce>(
      count, thread, [&](int row) { return load_row(count - 1 - row); },
      [&](int row, const auto& packed) { act(count - 1 - row, packed); });
}

/// The normalisation of a thread's channels: z = (x − μ) γ/σ + β.
struct Normalizer {
  Eight mean, scale, shift;

  __device__ Normalizer(const float* statistics, const float* bias, int channels, int channel)
      : mean(unpack(load(statistics + channel))),
        scale(unpack(load(statistics + 2 * channels + channel))),
        shift(unpack(load(bias + channel))) {}

  __device__ float centered(float x, int i) const { return x - mean.of[i]; }
  __device__ float normalized(float centered_x, int i) const {
    return fmaf(centered_x, scale.of[i], shift.of[i]);
  }
};

/// Keeps a NaN, as LibTorch's does.
__device__ inline float relu(float z) { return z <= 0 ? 0 : z; }

/// The index of the first that is largest of four numbers, or of the last NaN, as LibTorch's pooling has it.
__device__ inline int largest(const float (&of)[4]) {
  int index = 0;
  float best = of[0];
#pragma unroll
  for (int i = 1; i < 4; ++i) {
    if (of[i] > best || of[i] != of[i]) {
      best = of[i];
      index = i;
    }
  }
  return index;
}

/// The pixels of the 2×2 square that a pooled one stands for; `width` is that of the unpooled image.
struct Square {
  int rows[4];

  __device__ Square(int pooled, int width) {
    const int line = pooled / (width / 2);
    const int corner = 2 * (line * width + pooled - line * (width / 2));
    rows[0] = corner;
    rows[1] = corner + 1;
    rows[2] = corner + width;
    rows[3] = corner + width + 1;
  }
};

/// The same four packed.
template <class T>
struct PackedSquare {
  Packed<T> of[4];

  PackedSquare() = default;
  __device__ PackedSquare(const T* from, const Square& square, int channels) {
#pragma unroll
    for (int i = 0; i < 4; ++i) of[i] = load(from + static_cast<size_t>(square.rows[i]) * channels);
  }
};

/// How the blocks of a launch take tiles and rows.
struct Launch {
  Tiling tiling;
  dim3 grid;
};

/// For sums: as many blocks as fill the device once, a thread having about four rows or more; of few rows,
/// narrow tiles that are a block's alone, so that no block waits for another.
Launch sums_launch(const ReluShape& shape);

/// For what is done row by row: as many blocks as fill the device a few times, up to eight rows to a thread.
constexpr int kRowThreads = 256;
Launch rows_launch(const ReluShape& shape);

/// A pass: a kernel that sums, and after it one that goes row by row.
template <class Sum, class Rows, class Pass>
cudaError_t launch_both(Sum sum, Rows rows, const ReluShape& shape, const Pass& pass, cudaStream_t stream) {
  const auto first = sums_launch(shape), second = rows_launch(shape);
  launch(sum, first.grid, kSumThreads, stream, first.tiling, shape, pass);
  launch(rows, second.grid, kRowThreads, stream, second.tiling, shape, pass);
  return cudaGetLastError();
}

/// Calls act with the type of the images, a null pointer to it.
template <class Act>
cudaError_t with_type(const ReluShape& shape, Act act) {
  return shape.bf16 ? act(static_cast<__nv_bfloat16*>(nullptr)) : act(static_cast<float*>(nullptr));
}

}  // namespace stiefel::models::cuda::relu
