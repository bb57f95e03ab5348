#pragma once

#include <torch/version.h>

#include <chrono>
#include <cstdint>
#include <string>

// LibTorch 2.0 took Gloo's and NCCL's groups out of ProcessGroup's family.
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

namespace stiefel::distributed {

#if TORCH_VERSION_MAJOR >= 2
using Group = c10d::Backend;
#else
using Group = c10d::ProcessGroup;
#endif

/// Whether this program was built with Gloo's headers, and with NCCL's.
bool has_gloo();
bool has_nccl();

/// The group of all ranks over Gloo or NCCL ("gloo" or "nccl"). `address` is the meeting place's: where it is
/// this machine's own, Gloo does not listen beyond it. Throws std::invalid_argument where this build has
/// none.
c10::intrusive_ptr<Group> make_group(const std::string& backend, const c10::intrusive_ptr<c10d::Store>& store,
                                     int64_t rank, int64_t size, const std::string& address,
                                     std::chrono::milliseconds limit);

/// Ends a group's connections before the group itself, which NCCL wants.
void shut_down(Group& group);

}  // namespace stiefel::distributed
