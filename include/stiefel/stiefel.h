#pragma once

/// Everything a user needs: optimisers on the Stiefel manifold and what goes with them.
#include <stiefel/cayley.h>
#include <stiefel/cayley_muon.h>
#include <stiefel/device_kernels.h>
#include <stiefel/init.h>
#include <stiefel/manifold.h>
#include <stiefel/nn/decorrelated_batch_norm.h>
#include <stiefel/nn/parametrized.h>
#include <stiefel/optim/cayley_adam.h>
#include <stiefel/optim/cayley_muon.h>
#include <stiefel/optim/cayley_sgd.h>
#include <stiefel/optim/curvilinear_search.h>
#include <stiefel/optim/euclidean.h>
#include <stiefel/optim/overlapped_step.h>
#include <stiefel/optim/retraction_sgd.h>
#include <stiefel/parameters.h>
#include <stiefel/parametrizations.h>
#include <stiefel/penalties.h>
#include <stiefel/polar.h>
#include <stiefel/ranks.h>
#include <stiefel/retractions.h>
#include <stiefel/schedules.h>
#include <stiefel/testing.h>
