#include <ucontext.h>

#include <memory>
#include <vector>

#include "cuda_runtime_api.h"

dim3 threadIdx, blockIdx, gridDim, blockDim;

namespace cuda_on_cpu {

int processors = 13;

namespace {

constexpr size_t kStack = 32 * 1024;

/// The threads of a block, each with a stack of its own.
struct Block {
  explicit Block(int threads) : contexts(threads), done(threads), stacks(new char[threads * kStack]) {}

  std::vector<ucontext_t> contexts;
  std::vector<char> done;
  std::unique_ptr<char[]> stacks;
  ucontext_t scheduler{};
  size_t current = 0;
  const std::function<void()>* kernel = nullptr;
};

Block* block = nullptr;

void to_scheduler() { swapcontext(&block->contexts[block->current], &block->scheduler); }

void one_thread() {
  (*block->kernel)();
  block->done[block->current] = 1;
  to_scheduler();
}

void start_threads() {
  for (size_t i = 0; i < block->contexts.size(); ++i) {
    auto& context = block->contexts[i];
    getcontext(&context);
    context.uc_stack.ss_sp = &block->stacks[i * kStack];
    context.uc_stack.ss_size = kStack;
    context.uc_link = nullptr;
    makecontext(&context, one_thread, 0);
    block->done[i] = 0;
  }
}

/// Lets every thread run to its next barrier or its end; false where all have ended.
bool round() {
  bool more = false;
  for (size_t i = 0; i < block->contexts.size(); ++i) {
    if (block->done[i]) continue;
    block->current = i;
    threadIdx = dim3(static_cast<unsigned>(i), 0, 0);
    swapcontext(&block->scheduler, &block->contexts[i]);
    more = more || !block->done[i];
  }
  return more;
}

}  // namespace

void wait_for_block() { to_scheduler(); }

float* dynamic_memory() {
  alignas(128) static float memory[kDynamicBytes / sizeof(float)];  // the blocks come one at a time
  return memory;
}

void run(dim3 grid, int threads, const std::function<void()>& kernel) {
  Block all(threads);
  block = &all;
  block->kernel = &kernel;
  gridDim = grid;
  blockDim = dim3(static_cast<unsigned>(threads));
  for (unsigned y = 0; y < grid.y; ++y) {
    for (unsigned x = 0; x < grid.x; ++x) {
      blockIdx = dim3(x, y, 0);
      start_threads();
      while (round()) {
      }
    }
  }
  block = nullptr;
}

}  // namespace cuda_on_cpu
