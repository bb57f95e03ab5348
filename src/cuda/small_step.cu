#include "small_step.h"

#include <algorithm>
#include <vector>

#include "mixed_kernels.h"
#include "small_list.h"

// Which kernel takes which matrices, and their launches.

namespace stiefel::cuda {

namespace {

// From CUDA 13 on every driver takes 32 KB of parameters.
constexpr int kStacksAtOnce = CUDART_VERSION >= 13000 ? 300 : 36;

/// Pointers as a kernel's parameters: they reach the device without a copy, and a captured step keeps them.
struct StackPointers {
  int count;
  int pad;
  SmallStack stacks[kStacksAtOnce];
};
static_assert(is_plain<StackPointers, 8 + kStacksAtOnce * sizeof(SmallStack)>);
static_assert(sizeof(StackPointers) + sizeof(SmallStack*) <= (CUDART_VERSION >= 13000 ? 32764 : 4096),
              "what a kernel's parameters may take");

constexpr int kPointerThreads = 128;

__global__ void write_stacks(const __grid_constant__ StackPointers pointers, SmallStack* to) {
  for (int i = threadIdx.x; i < pointers.count; i += kPointerThreads) to[i] = pointers.stacks[i];
}

cudaError_t launch(const SmallForm& form, const SmallStack* stacks, int count, const Recipe& recipe,
                   SmallStack* memory, cudaStream_t stream) {
  SmallList list{count, stacks[count - 1].first + stacks[count - 1].count, nullptr, {}};
  if (count <= kOwnStacks) {
    std::copy_n(stacks, count, list.own);
  } else {
    list.table = memory;
    for (int at = 0; at < count; at += kStacksAtOnce) {
      StackPointers pointers{std::min(kStacksAtOnce, count - at), 0, {}};
      std::copy_n(stacks + at, pointers.count, pointers.stacks);
      write_stacks<<<1, kPointerThreads, 0, stream>>>(pointers, memory + at);
    }
  }
  form.kernel<<<list.matrices, form.threads, form.shared_bytes, stream>>>(list, recipe);
  return cudaGetLastError();
}

/// Lets the kernels use the shared memory that they need, once per device.
cudaError_t allow_all(const SmallCard& card) {
  static thread_local int allowed = -1;
  int device = 0;
  if (const auto error = cudaGetDevice(&device); error != cudaSuccess) return error;
  if (allowed == device) return cudaSuccess;
  for (const auto& all : {small_forms_of_halves(), small_forms_of_floats()}) {
    for (int i = 0; i < all.count; ++i) {
      const SmallForm& form = all.forms[i];
      if (form.capability > card.capability || form.shared_bytes + kStaticBytes > card.shared_bytes) continue;
      if (const auto error = allow_shared(form.shared_bytes, form.kernel); error != cudaSuccess) return error;
    }
  }
  allowed = device;
  return cudaSuccess;
}

}  // namespace

bool has_small_kernel(Shape shape, const SmallCard& card) { return find_form(shape, card) != nullptr; }

size_t small_step_bytes(int stacks) {
  return stacks > kOwnStacks ? static_cast<size_t>(stacks) * sizeof(SmallStack) : 0;
}

cudaError_t small_step(SmallStack* stacks, int count, const Recipe& recipe, const SmallCard& card,
                       void* memory, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  if (const auto error = allow_all(card); error != cudaSuccess) return error;
  // Same kernels together; equal ones stay in their order, so that a step repeats itself.
  std::stable_sort(stacks, stacks + count, [&](const SmallStack& a, const SmallStack& b) {
    return find_form({a.p, a.n}, card) < find_form({b.p, b.n}, card);
  });
  for (int from = 0, to; from < count; from = to) {
    const SmallForm* form = find_form({stacks[from].p, stacks[from].n}, card);
    int matrices = 0;
    for (to = from; to < count && find_form({stacks[to].p, stacks[to].n}, card) == form; ++to) {
      stacks[to].first = matrices;
      matrices += stacks[to].count;
    }
    const auto error =
        launch(*form, stacks + from, to - from, recipe, static_cast<SmallStack*>(memory) + from, stream);
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

}  // namespace stiefel::cuda
