#include "relu_rows.cuh"

namespace stiefel::models::cuda::relu {

namespace {

/// A pixel's x and the gradient that reached it.
template <class T>
struct Pair {
  Packed<T> x, gradient;
};

/// A square's four x and the gradient of its largest y.
template <class T>
struct SquarePair {
  PackedSquare<T> x;
  Packed<T> gradient;
};

/// A channel of a square: x − μ of its four pixels, and which of them the gradient of the maximum goes to.
struct Chosen {
  float centered[4];
  int winner;
  bool passes;  ///< whether its ReLU lets it through

  template <class T>
  __device__ Chosen(const Eight (&four)[4], int i, const Normalizer& normalizer, const T* type) {
    float y[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      centered[j] = normalizer.centered(four[j].of[i], i);
      // Of numbers that a T cannot tell apart the first was the largest.
      y[j] = rounded(relu(normalizer.normalized(centered[j], i)), type);
    }
    winner = largest(y);
    passes = !(y[winner] <= 0);
  }

  __device__ float of_winner() const {
    return winner < 2 ? (winner == 0 ? centered[0] : centered[1]) : (winner == 2 ? centered[2] : centered[3]);
  }
};

/// What follows from Σg and Σg(x − μ): the gradients of γ and β, and ∂x = γ/σ g + b (x − μ) + c.
__device__ void finish(const Sums& sums, int rows, int channels, int channel, const ReluBackward& pass) {
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    const int at = channel + i;
    const float inverse = pass.statistics[channels + at];
    const float scale = pass.statistics[2 * channels + at];
    const float weight_gradient = inverse * sums.second.of[i];  // Σ g x̂
    pass.weight_gradient[at] = weight_gradient;
    pass.bias_gradient[at] = sums.first.of[i];
    pass.coefficients[at] = -scale * inverse * weight_gradient / static_cast<float>(rows);
    pass.coefficients[channels + at] = -scale * sums.first.of[i] / static_cast<float>(rows);
  }
}

/// What a thread reads of x and of the gradient, from its channels on.
template <class T>
struct Inputs {
  const T* x;
  const T* gradient;
  int channels;

  __device__ Inputs(const ReluBackward& pass, const ReluShape& shape, const ThreadIndex& thread)
      : x(static_cast<const T*>(pass.x) + thread.channel),
        gradient(static_cast<const T*>(pass.gradient) + thread.channel),
        channels(shape.channels) {}

  __device__ Pair<T> pair(int row) const {
    const size_t at = static_cast<size_t>(row) * channels;
    return {load(x + at), load(gradient + at)};
  }
  /// `row` counts pooled pixels.
  __device__ SquarePair<T> square_pair(int row, int width) const {
    return {PackedSquare<T>(x, Square(row, width), channels),
            load(gradient + static_cast<size_t>(row) * channels)};
  }
};

/// Σg and Σg(x − μ) of each channel, with g = ∂y where z > 0: add(sums, thread, inputs, normaliser) adds a
/// thread's rows.
template <class T, class Add>
__device__ void reduce_rows(const Tiling& tiling, const ReluShape& shape, const ReluBackward& pass, Add add) {
  const ThreadIndex thread(tiling);
  const Inputs<T> inputs(pass, shape, thread);
  Sums sums;
  if (thread.works) {
    add(sums, thread, inputs, Normalizer(pass.statistics, pass.bias, shape.channels, thread.channel));
  }
  if (add_blocks(sums, tiling, thread, pass.partial, pass.counters)) {
    finish(sums, shape.rows, shape.channels, thread.channel, pass);
  }
}

template <class T>
__global__ __launch_bounds__(kSumThreads, 1) void reduce(Tiling tiling, ReluShape shape, ReluBackward pass) {
  reduce_rows<T>(
      tiling, shape, pass,
      [&](Sums& sums, const ThreadIndex& thread, const Inputs<T>& inputs, const Normalizer& normalizer) {
        for_rows<4>(
            shape.rows, thread, [&](int row) { return inputs.pair(row); },
            [&](int, const Pair<T>& pair) {
              const Eight values = unpack(pair.x), gradients = unpack(pair.gradient);
#pragma unroll
              for (int i = 0; i < kEight; ++i) {
                const float centered = normalizer.centered(values.of[i], i);
                const float g = normalizer.normalized(centered, i) <= 0 ? 0 : gradients.of[i];
                sums.first.of[i] += g;
                sums.second.of[i] = fmaf(g, centered, sums.second.of[i]);
              }
            });
      });
}

template <class T>
__global__ __launch_bounds__(kSumThreads, 1) void reduce_pooled(Tiling tiling, ReluShape shape,
                                                                ReluBackward pass) {
  reduce_rows<T>(
      tiling, shape, pass,
      [&](Sums& sums, const ThreadIndex& thread, const Inputs<T>& inputs, const Normalizer& normalizer) {
        for_rows<1>(
            shape.out_rows(), thread, [&](int row) { return inputs.square_pair(row, shape.width); },
            [&](int, const SquarePair<T>& pair) {
              Eight four[4];
#pragma unroll
              for (int j = 0; j < 4; ++j) four[j] = unpack(pair.x.of[j]);
              const Eight gradients = unpack(pair.gradient);
#pragma unroll
              for (int i = 0; i < kEight; ++i) {
                const Chosen chosen(four, i, normalizer, inputs.x);
                const float g = chosen.passes ? gradients.of[i] : 0;
                sums.first.of[i] += g;
                sums.second.of[i] = fmaf(g, chosen.of_winner(), sums.second.of[i]);
              }
            });
      });
}

/// ∂x = γ/σ g + b (x − μ) + c, of a thread's channels.
struct Differential {
  Normalizer normalizer;
  Eight slope, constant;  ///< b, c

  __device__ Differential(const ReluBackward& pass, int channels, int channel)
      : normalizer(pass.statistics, pass.bias, channels, channel),
        slope(unpack(load(pass.coefficients + channel))),
        constant(unpack(load(pass.coefficients + channels + channel))) {}

  __device__ float of(float g, float centered, int i) const {
    return fmaf(normalizer.scale.of[i], g, fmaf(slope.of[i], centered, constant.of[i]));
  }
};

template <class T, bool kAdds>
__global__ __launch_bounds__(kRowThreads, 2) void differentiate(Tiling tiling, ReluShape shape,
                                                                ReluBackward pass) {
  const int channels = shape.channels;
  struct Loaded {
    Pair<T> pair;
    Packed<T> sum;
  };
  const ThreadIndex thread(tiling);
  if (!thread.works) return;
  const Inputs<T> inputs(pass, shape, thread);
  const T* sum_gradient = static_cast<const T*>(pass.sum_gradient) + (kAdds ? thread.channel : 0);
  T* x_gradient = static_cast<T*>(pass.x_gradient) + thread.channel;
  const Differential differential(pass, channels, thread.channel);
  for_rows_backwards<2>(
      shape.rows, thread,
      [&](int row) {
        Loaded loaded;
        loaded.pair = inputs.pair(row);
        if constexpr (kAdds) loaded.sum = load(sum_gradient + static_cast<size_t>(row) * channels);
        return loaded;
      },
      [&](int row, const Loaded& loaded) {
        const Eight values = unpack(loaded.pair.x);
        Eight result = unpack(loaded.pair.gradient);
#pragma unroll
        for (int i = 0; i < kEight; ++i) {
          const float centered = differential.normalizer.centered(values.of[i], i);
          const float g = differential.normalizer.normalized(centered, i) <= 0 ? 0 : result.of[i];
          result.of[i] = differential.of(g, centered, i);
        }
        if constexpr (kAdds) {
          const Eight sum = unpack(loaded.sum);
#pragma unroll
          for (int i = 0; i < kEight; ++i) result.of[i] += sum.of[i];
        }
        store(x_gradient + static_cast<size_t>(row) * channels, result);
      });
}

template <class T>
__global__ __launch_bounds__(kRowThreads, 2) void differentiate_pooled(Tiling tiling, ReluShape shape,
                                                                       ReluBackward pass) {
  const int channels = shape.channels;
  const ThreadIndex thread(tiling);
  if (!thread.works) return;
  const Inputs<T> inputs(pass, shape, thread);
  T* x_gradient = static_cast<T*>(pass.x_gradient) + thread.channel;
  const Differential differential(pass, channels, thread.channel);
  for_rows_backwards<1>(
      shape.out_rows(), thread, [&](int row) { return inputs.square_pair(row, shape.width); },
      [&](int row, const SquarePair<T>& pair) {
        Eight four[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) four[j] = unpack(pair.x.of[j]);
        const Eight gradients = unpack(pair.gradient);
#pragma unroll
        for (int i = 0; i < kEight; ++i) {
          const Chosen chosen(four, i, differential.normalizer, inputs.x);
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            const float g = chosen.passes && chosen.winner == j ? gradients.of[i] : 0;
            four[j].of[i] = differential.of(g, chosen.centered[j], i);
          }
        }
        const Square square(row, shape.width);
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          store(x_gradient + static_cast<size_t>(square.rows[j]) * channels, four[j]);
        }
      });
}

}  // namespace

cudaError_t normalized_relu_backward(const ReluShape& shape, const ReluBackward& pass, cudaStream_t stream) {
  return with_type(shape, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto rows = shape.pooled                   ? differentiate_pooled<T>
                      : pass.sum_gradient == nullptr ? differentiate<T, false>
                                                     : differentiate<T, true>;
    return launch_both(shape.pooled ? reduce_pooled<T> : reduce<T>, rows, shape, pass, stream);
  });
}

}  // namespace stiefel::models::cuda::relu
