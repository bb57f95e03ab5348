#pragma once

#include <ATen/ATen.h>
#include <stiefel/cayley.h>

#include "operators.h"

/// What depends on the device that a LibTorch was built for. device.cpp has it for one without CUDA, the
/// files of cuda/ for one with it.
namespace stiefel::detail {

/// Whether what is launched on a device now is recorded into a CUDA graph instead of being run.
bool is_capturing(const c10::Device& device);

/// Whether step_by_kernels() steps this weight, given that it gets as far. Such kernels compute every matrix
/// apart from the others.
bool has_kernels_for(const at::Tensor& point, const CayleyOptions& options, const MuonTerms* muon = nullptr);

/// Takes a step by kernels of ours, where there are some for the device, the type and the form of the step.
/// Returns whether it did.
bool step_by_kernels(const StepMatrices& matrices, const StepCounters& counters, const at::Tensor& rate,
                     const UpdateRule& rule, const CayleyOptions& options);

}  // namespace stiefel::detail
