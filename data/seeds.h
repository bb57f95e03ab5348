#pragma once

#include <cstdint>

// Everything random in training is a pure function of (seed, epoch, step) and of what it is for, so that a
// run can be resumed anywhere with no generator's state saved, and data order is the same on every device
// and with every version of LibTorch (whose own generators promise neither).

namespace stiefel::data {

enum class Purpose : uint64_t {
  kOrder = 1,
  kAugment = 2,
  kSplit = 3,
  kDropout = 4,
  kInitialization = 5,
  kPenalty = 6,
  kPixelOrder = 7,
  kSequences = 8,
  kTestSequences = 9
};

/// The output function of splitmix64 (Steele, Lea & Flood 2014): a bijection in which every bit of the
/// argument sways every bit of the result.
inline uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15U;  // 2^64 over the golden ratio, splitmix64's increment

/// A 64-bit seed for one use at one place of a run.
inline uint64_t mix(uint64_t seed, int64_t epoch, int64_t step, Purpose purpose) {
  uint64_t result = scramble(seed + kGolden);
  result = scramble(result + kGolden + static_cast<uint64_t>(epoch));
  result = scramble(result + kGolden + static_cast<uint64_t>(step));
  return scramble(result + kGolden + static_cast<uint64_t>(purpose));
}

/// splitmix64: the random numbers that follow from a seed.
class Stream {
 public:
  explicit Stream(uint64_t seed) : state_(seed) {}

  uint64_t next() { return scramble(state_ += kGolden); }

  /// Uniform in 0 … n−1; for the n of this module the bias, n/2³², is nothing one could measure.
  int64_t below(int64_t n) { return static_cast<int64_t>(((next() >> 32) * static_cast<uint64_t>(n)) >> 32); }

 private:
  uint64_t state_;
};

}  // namespace stiefel::data
