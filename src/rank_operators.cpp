#include <ATen/core/dispatch/Dispatcher.h>
#include <stiefel/sharding.h>
#include <torch/library.h>

#include <map>
#include <memory>
#include <mutex>

#include "find_ranks.h"

// Ranks for front ends that have communicators of their own, such as Python's process groups: they implement
// the two operators by which the library sums and gathers, and name the ranks when they call a step.

namespace stiefel {

namespace {

void sum_kernel(at::Tensor, c10::string_view) {
  TORCH_CHECK(false, "stiefel: sum_over_ranks_ is for the front end to implement, and it has not");
}

at::Tensor gather_kernel(const at::Tensor&, c10::string_view) {
  TORCH_CHECK(false, "stiefel: gather_over_ranks is for the front end to implement, and it has not");
}

template <class Signature>
auto find_operator(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

/// Ranks whose messages go through the dispatcher.
class DispatchedRanks final : public Ranks {
 public:
  DispatchedRanks(int64_t rank, int64_t size) : rank_(rank), size_(size) {}

  int64_t rank() const override { return rank_; }
  int64_t size() const override { return size_; }
  void sum_(const at::Tensor& tensor) override {
    find_operator<decltype(sum_kernel)>("stiefel::sum_over_ranks_").call(tensor, name());
  }
  at::Tensor gather(const at::Tensor& tensor) override {
    return find_operator<decltype(gather_kernel)>("stiefel::gather_over_ranks").call(tensor, name());
  }

 private:
  int64_t rank_, size_;
};

struct Opened {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<Ranks>> ranks;
};

Opened& opened() {
  static auto* const all = new Opened;  // outlives every other static object
  return *all;
}

std::string open_ranks(int64_t rank, int64_t size) {
  TORCH_CHECK(size >= 1 && rank >= 0 && rank < size, "stiefel: a rank lies in [0, size); got rank ", rank,
              " and size ", size);
  auto ranks = std::make_unique<DispatchedRanks>(rank, size);
  auto name = ranks->name();
  const std::lock_guard<std::mutex> alone(opened().mutex);
  opened().ranks.emplace(name, std::move(ranks));
  return name;
}

void close_ranks(c10::string_view name) {
  const std::lock_guard<std::mutex> alone(opened().mutex);
  TORCH_CHECK(opened().ranks.erase(std::string(name)) == 1, "stiefel: no ranks of the name '", name,
              "' are open");
}

std::vector<int64_t> owners(at::IntArrayRef costs, int64_t ranks, at::IntArrayRef loads) {
  auto already = loads.vec();
  return assign_owners(costs.vec(), ranks, already);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(stiefel, library) {
  library.def("open_ranks(int rank, int size) -> str", open_ranks);
  library.def("close_ranks(str ranks) -> ()", close_ranks);
  library.def("owners(int[] costs, int ranks, int[] loads=[]) -> int[]", owners);
  library.def("step_cost(int[] shape, bool batched=False) -> int",
              [](at::IntArrayRef shape, bool batched) { return step_cost(shape, batched); });
  library.def("sum_over_ranks_(Tensor(a!) tensor, str ranks) -> ()");
  library.def("gather_over_ranks(Tensor tensor, str ranks) -> Tensor");
  library.def("sharded_defect(Tensor weight, str ranks, int shard_dim, bool batched=False) -> Tensor");
  library.def(
      "sharded_orthonormalize_(Tensor(a!) weight, str ranks, int shard_dim, bool batched=False) -> "
      "Tensor(a!)");
}

TORCH_LIBRARY_IMPL(stiefel, CompositeExplicitAutograd, library) {
  library.impl("sharded_defect",
               [](const at::Tensor& weight, c10::string_view ranks, int64_t shard_dim, bool batched) {
                 return sharded_defect(weight, detail::find_ranks(std::string(ranks)), shard_dim, batched);
               });
  library.impl("sharded_orthonormalize_", [](at::Tensor weight, c10::string_view ranks, int64_t shard_dim,
                                             bool batched) {
    return sharded_orthonormalize_(weight, detail::find_ranks(std::string(ranks)), shard_dim, batched);
  });
}

}  // namespace stiefel
