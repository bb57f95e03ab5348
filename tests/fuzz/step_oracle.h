#pragma once

#include "choices.h"

namespace fuzz {

/// What a run of an oracle has looked at, and how far from the manifold it got.
struct StepSeen {
  int64_t steps = 0;
  int64_t left = 0;      ///< matrices that were counted and left in place
  int64_t compared = 0;  ///< steps that were compared with the dense reference
  double defect = 0;
  double gap = 0;  ///< to the reference
};

/// Draws an optimizer of a random kind over a weight of a random shape, type and layout, and takes steps with
/// gradients of any size. After each: a matrix whose gradient was not finite is where it was, and counted;
/// every other one is finite and orthonormal. A step of Cayley SGD or ADAM in double, with gradients of a
/// moderate size, is where the dense reference is.
StepSeen check_steps(Choices& choices);

}  // namespace fuzz
