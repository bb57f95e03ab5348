#include "declarations.h"
#include "error_table.h"

namespace stiefel::paper {

Experiment table1() {
  return error_table("table1", "cifar10", "CIFAR-10",
                     {{5.88, 6.32, 6.49, 6.23, 4.96, 3.89},
                      {6.43, 6.61, 6.92, 6.77, 5.32, 3.86},
                      {5.90, 5.77, 5.85, 6.35, 5.15, 3.66},
                      {5.93, 5.88, 6.03, 6.44, 5.22, 3.57}});
}

}  // namespace stiefel::paper
