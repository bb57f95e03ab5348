#pragma once

#include <cuda_fp16.h>

/// Products on the tensor cores that keep float32's accuracy. A number x of a group is split into two halves
/// of 11 significant bits, x·2^(14−E) = big + small, where 2^E is the largest power of two in the group: half
/// precision has no room for more exponents, but within a group nothing smaller than 2⁻³⁰ of the largest
/// counts. Then xy = big·big + big·small + small·big, and what is left out is 2⁻²⁴ of xy.
///
/// Tensor cores cut off what does not fit as they add, which over many steps would shrink the states: a
/// product is therefore kept to 16 terms, the small ones first, and added to the others by the float32 units,
/// which round.
namespace stiefel::models::cuda::cluster {

/// A group's scale, from the bits of the largest absolute value in it.
struct Scale {
  float up;    ///< 2^(14−E)
  float back;  ///< 2^(E−14)

  __device__ __forceinline__ explicit Scale(unsigned largest) {
    const unsigned exponent = max(largest >> 23, 15u);  // E + 127; both powers stay within float's range
    up = __uint_as_float((268u - exponent) << 23);
    back = __uint_as_float((exponent - 14u) << 23);
  }
};

/// A number's two pieces, already scaled up. An infinity or a NaN stays what it is in `big`.
struct Pieces {
  __half big, small;

  __device__ __forceinline__ explicit Pieces(float x) {
    big = __float2half_rn(x);
    small = __float2half_rn(x - __half2float(big));
  }
};

/// 16×16 of the left factor (rows × inner), 16×8 of the right (inner × columns) and 16×8 of the product, as a
/// warp holds them, two neighbours in a register: with group = lane / 4 and q = lane % 4,
///
///   left    (group, 2q…), (group + 8, 2q…), (group, 2q + 8…), (group + 8, 2q + 8…)
///   right   (2q…, group), (2q + 8…, group)
///   product (group, 2q), (group, 2q + 1), (group + 8, 2q), (group + 8, 2q + 1)
struct Left {
  unsigned big[4], small[4];
};

struct Right {
  unsigned big[2], small[2];
};

struct Product {
  float at[4] = {0, 0, 0, 0};
};

__device__ __forceinline__ void multiply_add(Product& c, const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c.at[0]), "+f"(c.at[1]), "+f"(c.at[2]), "+f"(c.at[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ Product product(const Left& a, const Right& b) {
  Product c;
  multiply_add(c, a.small, b.big);
  multiply_add(c, a.big, b.small);
  multiply_add(c, a.big, b.big);
  return c;
}

/// c ← c ± d, the columns scaled, rounded to nearest.
__device__ __forceinline__ void add(Product& c, float2 scale, const Product& d) {
#pragma unroll
  for (int i = 0; i < 4; ++i) c.at[i] = fmaf(i % 2 == 0 ? scale.x : scale.y, d.at[i], c.at[i]);
}

}  // namespace stiefel::models::cuda::cluster
