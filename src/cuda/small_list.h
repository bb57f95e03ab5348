#pragma once

#include <initializer_list>

#include "small_step.h"

/// What small_step.cu launches: the kernels of each kind of shape.
namespace stiefel::cuda {

constexpr int kOwnStacks = 32;
constexpr int kStaticBytes = 3072;

/// The stacks of one launch, a thread block per matrix: its own, or where these are too many a table in
/// device memory.
struct SmallList {
  int stacks;
  int matrices;
  const SmallStack* table;
  SmallStack own[kOwnStacks];
};
static_assert(is_plain<SmallList, 16 + kOwnStacks * sizeof(SmallStack)>);
static_assert(sizeof(SmallList) + sizeof(Recipe) <= 4096, "what a kernel's parameters may take");

/// A kernel for matrices of up to p×n; `square`: for those with p = n alone, which take the shorter step.
struct SmallForm {
  int p, n;
  bool square;
  int threads;
  int shared_bytes;  ///< asked for at the launch, beside at most kStaticBytes that the kernel has
  int capability;    ///< the least, 10·major + minor
  void (*kernel)(SmallList, Recipe);
};

/// All kernels of a kind of product, the cheapest first among those that a shape fits.
struct SmallForms {
  const SmallForm* forms;
  int count;
};
SmallForms small_forms_of_halves();
SmallForms small_forms_of_floats();

/// The first kernel that takes a shape on a card, on tensor cores where the card has them. Null where there
/// is none.
inline const SmallForm* find_form(Shape shape, const SmallCard& card) {
  for (const auto& all : {small_forms_of_halves(), small_forms_of_floats()}) {
    for (int i = 0; i < all.count; ++i) {
      const SmallForm& form = all.forms[i];
      if (shape.p <= form.p && shape.n <= form.n && (shape.p == shape.n) == form.square &&
          form.capability <= card.capability && form.shared_bytes + kStaticBytes <= card.shared_bytes) {
        return &form;
      }
    }
  }
  return nullptr;
}

}  // namespace stiefel::cuda
