#pragma once

// The name of earlier versions.
#include <stiefel/nn/parametrized.h>
