#include "relu_rows.cuh"

namespace stiefel::models::cuda::relu {

namespace {

template <class T, bool kAdds>
struct Term {
  Packed<T> x, addend;
};
template <class T>
struct Term<T, false> {
  Packed<T> x;
};

/// x, or x + addend as a T keeps it.
template <class T, bool kAdds>
__device__ Eight value(const Term<T, kAdds>& term) {
  Eight result = unpack(term.x);
  if constexpr (kAdds) {
    const Eight addend = unpack(term.addend);
#pragma unroll
    for (int i = 0; i < kEight; ++i) {
      result.of[i] = rounded(result.of[i] + addend.of[i], static_cast<const T*>(nullptr));
    }
  }
  return result;
}

/// What follows from the sums of x − pivot and (x − pivot)² over all rows, for a thread's channels.
__device__ void finish(const Sums& sums, const Eight& pivot, int rows, int channels, int channel,
                       const ReluForward& pass) {
  const float count = static_cast<float>(rows);
#pragma unroll
  for (int i = 0; i < kEight; ++i) {
    const int at = channel + i;
    const float offset = sums.first.of[i] / count;
    const float spread = sums.second.of[i] / count - offset * offset;
    const float variance = spread < 0 ? 0 : spread;  // a NaN stays one
    const float mean = pivot.of[i] + offset;
    const float inverse = 1 / sqrtf(variance + pass.epsilon);
    pass.statistics[at] = mean;
    pass.statistics[channels + at] = inverse;
    pass.statistics[2 * channels + at] = pass.weight[at] * inverse;
    const float unbiased = variance * (count / (count - 1));
    pass.running_mean[at] += pass.momentum * (mean - pass.running_mean[at]);
    pass.running_variance[at] += pass.momentum * (unbiased - pass.running_variance[at]);
  }
  if (channel == 0) ++*pass.batches;
}

/// μ and σ of each channel. The sums are of x less the first pixel's value: of numbers far from zero the
/// plain squares would leave no digits of the variance.
template <class T, bool kAdds>
__global__ __launch_bounds__(kSumThreads, 1) void collect(Tiling tiling, ReluShape shape, ReluForward pass) {
  const int channels = shape.channels;
  const ThreadIndex thread(tiling);
  const T* x = static_cast<const T*>(pass.x) + thread.channel;
  const T* addend = static_cast<const T*>(pass.addend) + (kAdds ? thread.channel : 0);
  T* sum = static_cast<T*>(pass.sum) + (kAdds ? thread.channel : 0);
  const auto term = [&](int row) {
    const size_t at = static_cast<size_t>(row) * channels;
    if constexpr (kAdds) {
      return Term<T, true>{load(x + at), load(addend + at)};
    } else {
      return Term<T, false>{load(x + at)};
    }
  };
  Sums sums;
  Eight pivot{};
  if (thread.works) {
    pivot = value(term(0));
    for_rows<4>(shape.rows, thread, term, [&](int row, const Term<T, kAdds>& packed) {
      const Eight eight = value(packed);
      if constexpr (kAdds) store(sum + static_cast<size_t>(row) * channels, eight);
#pragma unroll
      for (int i = 0; i < kEight; ++i) {
        const float less = eight.of[i] - pivot.of[i];
        sums.first.of[i] += less;
        sums.second.of[i] = fmaf(less, less, sums.second.of[i]);
      }
    });
  }
  if (add_blocks(sums, tiling, thread, pass.partial, pass.counters)) {
    finish(sums, pivot, shape.rows, channels, thread.channel, pass);
  }
}

/// y = relu(z).
template <class T>
__global__ __launch_bounds__(kRowThreads, 3) void apply(Tiling tiling, ReluShape shape, ReluForward pass) {
  const int channels = shape.channels;
  const ThreadIndex thread(tiling);
  if (!thread.works) return;
  const T* x = static_cast<const T*>(pass.addend == nullptr ? pass.x : pass.sum) + thread.channel;
  T* out = static_cast<T*>(pass.out) + thread.channel;
  const Normalizer normalizer(pass.statistics, pass.bias, channels, thread.channel);
  for_rows_backwards<4>(
      shape.rows, thread, [&](int row) { return load(x + static_cast<size_t>(row) * channels); },
      [&](int row, const Packed<T>& packed) {
        Eight eight = unpack(packed);
#pragma unroll
        for (int i = 0; i < kEight; ++i) {
          eight.of[i] = relu(normalizer.normalized(normalizer.centered(eight.of[i], i), i));
        }
        store(out + static_cast<size_t>(row) * channels, eight);
      });
}

/// The largest y of each 2×2 square.
template <class T>
__global__ __launch_bounds__(kRowThreads, 2) void apply_pooled(Tiling tiling, ReluShape shape,
                                                               ReluForward pass) {
  const int channels = shape.channels;
  const ThreadIndex thread(tiling);
  if (!thread.works) return;
  const T* x = static_cast<const T*>(pass.addend == nullptr ? pass.x : pass.sum) + thread.channel;
  T* out = static_cast<T*>(pass.out) + thread.channel;
  const Normalizer normalizer(pass.statistics, pass.bias, channels, thread.channel);
  for_rows_backwards<2>(
      shape.out_rows(), thread,
      [&](int row) { return PackedSquare<T>(x, Square(row, shape.width), channels); },
      [&](int row, const PackedSquare<T>& packed) {
        Eight four[4], result;
#pragma unroll
        for (int j = 0; j < 4; ++j) four[j] = unpack(packed.of[j]);
#pragma unroll
        for (int i = 0; i < kEight; ++i) {
          float y[4];
#pragma unroll
          for (int j = 0; j < 4; ++j)
            y[j] = relu(normalizer.normalized(normalizer.centered(four[j].of[i], i), i));
          result.of[i] = y[largest(y)];
        }
        store(out + static_cast<size_t>(row) * channels, result);
      });
}

}  // namespace

cudaError_t normalized_relu_forward(const ReluShape& shape, const ReluForward& pass, cudaStream_t stream) {
  return with_type(shape, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const auto sum = pass.addend == nullptr ? collect<T, false> : collect<T, true>;
    return launch_both(sum, shape.pooled ? apply_pooled<T> : apply<T>, shape, pass, stream);
  });
}

}  // namespace stiefel::models::cuda::relu
