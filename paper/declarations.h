#pragma once

#include "experiment.h"

/// The paper's tables, figures and theorems, each in the file of its name.
namespace stiefel::paper {

Experiment table1();
Experiment table2();
Experiment table3();
Experiment table4();
Experiment table5();
Experiment figure1();
Experiment figure2();
Experiment theorem1();
Experiment theorem2();

}  // namespace stiefel::paper
