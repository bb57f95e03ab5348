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

/// Whether an address is reached from its own machine alone.
bool is_loopback(const std::string& address);

/// The backend that "auto", "gloo" or "nccl" means: auto is NCCL for tensors on a GPU, where this program was
/// built with it. Throws std::invalid_argument for another name, and where this program lacks the backend or
/// it cannot do what is asked.
std::string choose_backend(const std::string& name, bool on_gpu);

/// The group of all ranks over a backend. `address` is the meeting place's: where it is this machine's own,
/// Gloo does not listen beyond it.
c10::intrusive_ptr<Group> make_group(const std::string& backend, const c10::intrusive_ptr<c10d::Store>& store,
                                     int64_t rank, int64_t size, const std::string& address,
                                     std::chrono::milliseconds limit);

/// Ends a group's connections before the group itself, which NCCL wants.
void shut_down(Group& group);

}  // namespace stiefel::distributed
