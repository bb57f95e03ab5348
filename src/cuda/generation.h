#pragma once

/// The mixed step's kernels are compiled twice from the same sources, each time into a namespace of its own:
/// for Hopper's matrix units and bulk copies, and for every card since Ampere (tensor_tile.cuh has the two
/// tiles). The build defines STIEFEL_FOR_HOPPER to 1 or 0; a test that runs kernels on the CPU runs Ampere's.
#ifndef STIEFEL_FOR_HOPPER
#define STIEFEL_FOR_HOPPER 0
#endif

#if STIEFEL_FOR_HOPPER
#define STIEFEL_KERNELS hopper
#else
#define STIEFEL_KERNELS ampere
#endif
