#include <torch/serialize/output-archive.h>

#include <array>

#include "archive_tree.h"
#include "some_optimizers.h"
#include "torch_errors.h"

// load() of every optimizer with an archive that was written by it and then damaged. It is refused by a
// c10::Error and the optimizer is what it was; or it is taken, saving and loading it once more gives the
// same, and a step either moves finite points or says what is wrong.

namespace optimizer_archive_target {

using fuzz::ArchiveTree;
using fuzz::SomeOptimizer;

ArchiveTree tree_of(const SomeOptimizer& it) {
  std::stringstream stream;
  torch::serialize::OutputArchive written;
  it.optimizer->save(written);
  written.save_to(stream);
  torch::serialize::InputArchive read;
  read.load_from(stream);
  return ArchiveTree::of(read);
}

bool equal(const c10::IValue& a, const c10::IValue& b) {
  if (!a.isTensor() || !b.isTensor())
    return a.tagKind() == b.tagKind() &&
           (a.isDouble() ? std::equal_to<>()(a.toDouble(), b.toDouble()) || a.toDouble() != a.toDouble()
                         : a == b);
  const auto x = a.toTensor(), y = b.toTensor();
  if (!x.defined() || !y.defined()) return x.defined() == y.defined();
  return x.sizes() == y.sizes() && x.scalar_type() == y.scalar_type() &&
         at::allclose(x.contiguous(), y.contiguous(), 0, 0, /*equal_nan=*/true);
}

bool equal(const ArchiveTree& a, const ArchiveTree& b) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [name, entry] : a.entries) {
    const auto found = b.entries.find(name);
    if (found == b.entries.end() || !entry.folder != !found->second.folder) return false;
    if (entry.folder ? !equal(*entry.folder, *found->second.folder)
                     : !equal(entry.value, found->second.value))
      return false;
  }
  return true;
}

/// What every optimizer of a kind saves after a step.
const ArchiveTree& written(int64_t kind) {
  static std::array<std::unique_ptr<ArchiveTree>, fuzz::kOptimizers> all;
  auto& found = all[static_cast<size_t>(kind)];
  if (!found) {
    const auto it = fuzz::some_optimizer(kind);
    fuzz::take_step(it);
    found = std::make_unique<ArchiveTree>(tree_of(it));
  }
  return *found;
}

FUZZ_TARGET(optimizer_archive) {
  at::set_num_threads(1);
  fuzz::Choices choices(input);
  const auto kind = choices.between(0, fuzz::kOptimizers - 1);
  auto damaged = written(kind).copy();
  fuzz::damage(damaged, choices);
  auto archive = fuzz::archive_of(damaged);

  const auto it = fuzz::some_optimizer(kind);
  // LibTorch names a state by where its parameter lies, so only ours can be compared.
  const auto before = it.own_archive ? tree_of(it) : ArchiveTree{};
  if (!fuzz::goes_through([&] { it.optimizer->load(archive); }, it.own_archive)) {
    if (it.own_archive) fuzz::require(equal(before, tree_of(it)), "a half-loaded optimizer");
    fuzz::require(fuzz::goes_through([&] { fuzz::take_step(it); }),
                  "a refused archive leaves an optimizer without a step");
    return;
  }
  if (it.own_archive) {
    const auto taken = tree_of(it);
    const auto again = fuzz::some_optimizer(kind);
    auto copy = fuzz::archive_of(taken);
    again.optimizer->load(copy);
    fuzz::require(equal(taken, tree_of(again)), "an archive changes when it is written");
  }
  fuzz::goes_through([&] { fuzz::take_step(it); }, it.own_archive);
}

}  // namespace optimizer_archive_target
