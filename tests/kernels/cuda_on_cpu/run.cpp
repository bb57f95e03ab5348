#include <setjmp.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "cuda_runtime_api.h"

dim3 threadIdx, blockIdx, gridDim, blockDim;

namespace cuda_on_cpu {

int processors = 13;
int shared_bytes = 99 << 10;
bool last_thread_first = false;

namespace {

constexpr size_t kStack = 32 * 1024;

struct Resume {
  jmp_buf where;
  bool begun = false;
  size_t barriers = 0;  // how many it has come to
};

/// The threads of a block, each with a stack of its own.
struct Block {
  explicit Block(int count)
      : contexts(static_cast<size_t>(count)),
        done(static_cast<size_t>(count)),
        stacks(new char[static_cast<size_t>(count) * kStack]),
        threads(static_cast<size_t>(count)) {}

  std::vector<ucontext_t> contexts;  // where a thread begins
  std::vector<char> done;
  std::unique_ptr<char[]> stacks;
  // Where a thread, and the scheduler, goes on: jumps make no system call, where swapcontext makes one.
  std::vector<Resume> threads;
  Resume scheduler{};
  size_t current = 0;
  const std::function<void()>* kernel = nullptr;
};

Block* block = nullptr;

void to_scheduler() {
  if (_setjmp(block->threads[block->current].where) == 0) _longjmp(block->scheduler.where, 1);
}

/// Lets the current thread run to its next barrier or its end.
[[gnu::noinline]] void to_thread() {
  if (_setjmp(block->scheduler.where) != 0) return;
  auto& thread = block->threads[block->current];
  if (thread.begun) _longjmp(thread.where, 1);
  thread.begun = true;
  setcontext(&block->contexts[block->current]);
}

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
    block->threads[i].begun = false;
    block->threads[i].barriers = 0;
  }
}

/// Lets every thread run to its next barrier or its end; false where all have ended.
bool round() {
  bool more = false;
  const size_t threads = block->contexts.size();
  for (size_t turn = 0; turn < threads; ++turn) {
    const size_t i = last_thread_first ? threads - 1 - turn : turn;
    if (block->done[i]) continue;
    block->current = i;
    threadIdx = dim3(static_cast<unsigned>(i), 0, 0);
    to_thread();
    more = more || !block->done[i];
  }
  return more;
}

/// On a GPU threads that come to a barrier without the others of their block wait forever, or for the wrong
/// ones.
void check_barriers() {
  for (const auto& thread : block->threads) {
    if (thread.barriers == block->threads[0].barriers) continue;
    std::fprintf(stderr, "cuda_on_cpu: threads of one block came to %zu and to %zu barriers\n",
                 block->threads[0].barriers, thread.barriers);
    std::abort();
  }
}

}  // namespace

void wait_for_warp() { to_scheduler(); }

void wait_for_block() {
  const size_t barrier = ++block->threads[block->current].barriers;
  const auto is_behind = [&](size_t i) { return !block->done[i] && block->threads[i].barriers < barrier; };
  // Only the last thread that was behind needs watching.
  for (size_t i = 0; i < block->threads.size(); ++i) {
    while (is_behind(i)) to_scheduler();
  }
}

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
      check_barriers();
    }
  }
  block = nullptr;
}

}  // namespace cuda_on_cpu
