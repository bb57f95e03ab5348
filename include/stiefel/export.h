#pragma once

/// Marks what the shared library exports. Everything else is hidden in it, so that what users can link
/// against is what these headers declare.
#if defined(__GNUC__)
#define STIEFEL_API __attribute__((visibility("default")))
#else
#define STIEFEL_API
#endif
