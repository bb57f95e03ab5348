#include "declarations.h"
#include "error_table.h"

namespace stiefel::paper {

Experiment table2() {
  return error_table("table2", "cifar100", "CIFAR-100",
                     {{26.17, 26.84, 27.62, 27.44, 23.41, 18.66},
                      {26.58, 27.10, 27.88, 27.89, 24.45, 18.45},
                      {24.86, 25.48, 25.68, 27.64, 23.71, 18.26},
                      {25.10, 25.61, 25.70, 27.91, 24.18, 18.10}});
}

}  // namespace stiefel::paper
