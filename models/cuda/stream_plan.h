#pragma once

/// Sizes of the stream kernel's thread blocks, in plain C++: the kernel, its launch and its test share them.
namespace stiefel::models::cuda::stream {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
constexpr int kLeastUnits = 64;              // below, a warp of the way back could be left without work
constexpr int kMostUnits = 1024;             // K has 8 MB then; by estimate LibTorch's products are as fast
constexpr int kMostMemory = 99 * 1024;       // bytes of a block's shared memory, on all cards alike
constexpr int kRowChoices[] = {2, 4, 6, 8};  // rows of the batch that a block can take

constexpr int divide_up(int a, int b) { return (a + b - 1) / b; }

/// Floats of a row of h in shared memory: a multiple of what eight lanes read at once.
constexpr int row_floats(int n, int parts) { return divide_up(n * parts, 32) * 32; }

/// h and the sums of K h.
constexpr int forward_floats(int n, int parts, int rows) { return 2 * rows * row_floats(n, parts); }

constexpr int kDeep = 4;  // rows of K that a thread of the way back has at once

/// Columns of K that a warp of the way back takes side by side; `width`: numbers per load.
constexpr int strip_columns(int width) { return 32 * width; }

/// How the warps share Kᴴδ: strips of columns, cut into pieces of kDeep rows, are numbered strip after strip,
/// and each warp takes a range of them. A range ends within a strip, so that a strip is the sum of the parts
/// of neighboring warps; the part of warp w of strip s has slot w + s. No two parts have one slot, because
/// from a part to the next either w or s grows.
struct Shares {
  int strips, pieces, total;
  constexpr Shares(int n, int width)
      : strips(divide_up(n, strip_columns(width))), pieces(divide_up(n, kDeep)), total(strips * pieces) {}
  constexpr int first(int warp) const { return warp * total / kWarps; }
  /// The warp whose range has a piece.
  constexpr int warp_of(int piece) const { return (kWarps * piece + kWarps - 1) / total; }
  constexpr int slots() const { return kWarps + strips; }
};

/// δ and the slots.
constexpr int backward_floats(int n, int parts, int rows, int width) {
  return rows * parts * (divide_up(n, kDeep) * kDeep + Shares(n, width).slots() * strip_columns(width));
}

enum class Direction { kForward, kBackward };

/// Bytes that a pass needs at most, whatever the width of the loads.
constexpr int memory_bytes(Direction direction, int n, int parts, int rows) {
  return 4 * (direction == Direction::kForward ? forward_floats(n, parts, rows)
                                               : backward_floats(n, parts, rows, 4 / parts));
}

/// What a card has.
struct Card {
  int processors;
  int lanes;   // float32 units of a multiprocessor
  int memory;  // bytes of shared memory that a block may have
};

/// Rows of the batch per block, so that a step over the whole batch takes the fewest clocks; 0 where no block
/// fits. A block reads K once per step, however many rows it takes: 64 bytes per clock from the second-level
/// cache, or its share of some 24 per multiprocessor of the card.
inline int rows_for(Direction direction, int n, int parts, int batch, const Card& card) {
  const double entries = static_cast<double>(n) * n;
  int best = 0;
  double fewest = 0;
  for (const int rows : kRowChoices) {
    if (memory_bytes(direction, n, parts, rows) > card.memory) continue;
    const int blocks = divide_up(batch, rows), turns = divide_up(blocks, card.processors);
    const int together = blocks < card.processors ? blocks : card.processors;
    const double share = 24.0 * card.processors / together, rate = share < 64 ? share : 64;
    const double products = rows * entries * parts * parts / card.lanes, stream = entries * parts * 4 / rate;
    const double clocks = turns * (products > stream ? products : stream);
    if (best != 0 && clocks >= fewest) continue;
    best = rows;
    fewest = clocks;
  }
  return best;
}

}  // namespace stiefel::models::cuda::stream
