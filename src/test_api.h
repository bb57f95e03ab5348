#pragma once

#include <stiefel/export.h>

/// Marks internal functions that tests call. They are exported from the shared library like the public ones,
/// because a second copy of the library's objects in a test would register its operators twice.
#define STIEFEL_TEST_API STIEFEL_API
