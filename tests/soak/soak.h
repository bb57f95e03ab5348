#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/terminal_line.h"
#include "tests/soak/methods.h"

// Many steps of one optimizer on one set of weights, every promise checked.

namespace soak {

using Shape = std::vector<int64_t>;

/// The shapes of a set of weights; those with three sizes are stacks of matrices.
struct Shapes {
  std::string name;
  std::vector<Shape> all;
};

/// Thin, square, tall, one row, and a stack of three.
const Shapes& small_matrices();

/// The weights that the stiefel command's small network has on the manifold, and those of WRN-16-4 with a
/// quarter of its channels.
const std::vector<Shapes>& networks();

struct Plan {
  int64_t steps;
  int64_t look_every = 1000;  ///< steps between two checks
  uint64_t seed = 1;
};

/// What came out where every promise was kept.
struct Result {
  double worst_defect = 0;  ///< of all looks, in units of its bound
  double largest = 0;       ///< ‖XᴴX − I‖_F itself
  int64_t not_finite = 0;   ///< gradients that were fed, and as many steps skipped
  int64_t growth = 0;       ///< bytes of resident memory after the warm-up
  double seconds = 0;
};

/// A promise that was not kept; what() names method, type, shape, step and value.
struct Broken : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Takes the plan's steps, and the first tenth of them once more from the same seed, which must end in the
/// same bits.
Result soak(const Method& method, const Shapes& shapes, at::ScalarType type, const Plan& plan,
            stiefel::base::TerminalLine& line);

/// The same on a GPU with the step captured into a CUDA graph and replayed, its rate changing from step to
/// step; returns false where there is no GPU.
bool soak_captured(const Method& method, const Shapes& shapes, const Plan& plan, Result& result,
                   stiefel::base::TerminalLine& line);

// What both share.

Weights make_weights(const Shapes& shapes, at::ScalarType type, uint64_t seed);

/// The matrices, then the stacks.
std::vector<at::Tensor> all_of(const Weights& weights);

/// Throw Broken where a promise is not kept. `kind` is the type of the weights, or how they are stepped.
void check_defects(const Method& method, const Shapes& shapes, const std::string& kind,
                   const std::vector<at::Tensor>& points, int64_t step, Result& result);
void check_skipped(const Method& method, const Shapes& shapes, const std::string& kind, int64_t skipped,
                   int64_t not_finite, int64_t step);
[[noreturn]] void fail(const Method& method, const Shapes& shapes, const std::string& kind, int64_t step,
                       const std::string& what);

/// Shows the step on a terminal five times a second, elsewhere in a line every half minute.
void show_progress(stiefel::base::TerminalLine& line, const std::string& title, int64_t step, int64_t steps);

}  // namespace soak
