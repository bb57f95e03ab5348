#pragma once

// The name of earlier versions.
#include <stiefel/parametrizations.h>
