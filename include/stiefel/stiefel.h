#pragma once

/// Everything a user needs: optimisers on the Stiefel manifold and what goes with them.
#include <stiefel/cayley.h>
#include <stiefel/init.h>
#include <stiefel/manifold.h>
#include <stiefel/optim/cayley_adam.h>
#include <stiefel/optim/cayley_sgd.h>
#include <stiefel/parameters.h>
#include <stiefel/schedules.h>
#include <stiefel/testing.h>
