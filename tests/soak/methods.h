#pragma once

#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

// The optimizers that are soaked, each with the gradients that it has to bear and the defect that it may
// leave.

namespace soak {

/// The weights of an optimizer: matrices, and stacks of matrices, which need a group of their own.
struct Weights {
  std::vector<at::Tensor> matrices;
  std::vector<at::Tensor> stacks;
};

/// The gradients that a method's promise holds for.
enum class Reach {
  kAny,      ///< of any finite size: the step's length is capped, or cut
  kLimited,  ///< such that a step moves a matrix by kTurn at most: nothing caps a retraction's step
};

/// l‖ξ‖_F under limited gradients, at most.
constexpr double kTurn = 0.3;

/// The learning rate of all methods.
constexpr double kRate = 0.2;

/// What ‖XᴴX − I‖_F may become: in single and double precision, in units of √p.
struct Bound {
  double in_single;
  double in_double;
  double per_step = 0;  ///< added per step, in units of the roundoff: an isometry keeps what each step leaves
  double apart = 0;     ///< by design, whatever the precision and p are

  double at(int64_t p, at::ScalarType type, int64_t steps) const;
};

struct Method {
  std::string name;
  double momentum;
  Reach reach;
  Bound bound;
  std::function<std::unique_ptr<stiefel::ManifoldOptimizer>(const Weights& weights)> make;
};

/// All of them: the three Cayley optimizers, and every retraction with and without momentum.
const std::vector<Method>& methods();

}  // namespace soak
