#pragma once

#include "distributed/world.h"
#include "models/network.h"
#include "precision.h"
#include "train/tasks/task.h"

namespace stiefel::train {

/// Loss and error of a network over a set of items.
struct Evaluation {
  double loss = 0;
  double error = 0;  ///< per cent
};

/// Evaluates a network on a part of a task's items, in evaluation mode; it is in training mode afterwards.
/// `products`: see TensorCoreScope. With a world its ranks share the items, and each has the same result:
/// that of one process, bit for bit where the weights are equal and batches are computed alike.
Evaluation evaluate(models::Network& network, const Task& task, Task::Part part, NetworkPrecision precision,
                    bool products, distributed::World* world = nullptr);

}  // namespace stiefel::train
