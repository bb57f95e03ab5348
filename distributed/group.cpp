#include "group.h"

#include <cstdlib>
#include <sstream>
#include <stdexcept>

#include "base/printable.h"

#if STIEFEL_HAS_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
#if STIEFEL_HAS_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace stiefel::distributed {

namespace {

#if STIEFEL_HAS_GLOO
using Gloo = c10d::ProcessGroupGloo;

c10::intrusive_ptr<Gloo::Options> gloo_options(const std::string& address, std::chrono::milliseconds limit) {
  auto options = Gloo::Options::create(limit);
  // The variable by which PyTorch chooses network interfaces for Gloo; it reads it in Python alone.
  if (const char* names = std::getenv("GLOO_SOCKET_IFNAME"); names != nullptr && *names != '\0') {
    std::istringstream stream(names);
    for (std::string name; std::getline(stream, name, ',');) {
      options->devices.push_back(Gloo::createDeviceForInterface(name));
    }
  } else if (is_loopback(address)) {
    options->devices.push_back(Gloo::createDeviceForHostname("127.0.0.1"));
  } else {
    options->devices.push_back(Gloo::createDefaultDevice());
  }
  return options;
}
#endif

#if STIEFEL_HAS_NCCL
// Groups have shutdown() since some version of LibTorch 2; NCCL's complains where it was not called.
template <class G>
auto call_shutdown(G& group, int) -> decltype(group.shutdown(), void()) {
  group.shutdown();
}
template <class G>
void call_shutdown(G&, long) {}
#endif

}  // namespace

bool is_loopback(const std::string& address) {
  return address == "localhost" || address == "::1" || address.rfind("127.", 0) == 0;
}

std::string choose_backend(const std::string& name, bool on_gpu) {
  constexpr bool has_gloo = STIEFEL_HAS_GLOO, has_nccl = STIEFEL_HAS_NCCL;
  if (name != "auto" && name != "gloo" && name != "nccl") {
    throw std::invalid_argument("--backend is '" + base::printable(name) +
                                "', but must be auto, gloo or nccl");
  }
  if (name == "nccl" && !on_gpu) {
    throw std::invalid_argument(
        "--backend is nccl, which connects GPUs, but the device is the CPU; use --backend gloo");
  }
  if (name == "nccl" && !has_nccl) {
    throw std::invalid_argument(
        "--backend is nccl, but this program was built without it: build it with a LibTorch for CUDA and "
        "NCCL's header "
        "nccl.h, or use --backend gloo");
  }
  if (name == "nccl" || (name == "auto" && on_gpu && has_nccl)) return "nccl";
  if (!has_gloo) {
    throw std::invalid_argument(
        "this program was built without Gloo, which connects processes: install its headers (Debian: "
        "libgloo-dev) and "
        "build again" +
        std::string(on_gpu && has_nccl ? ", or use --backend nccl" : ""));
  }
  return "gloo";
}

c10::intrusive_ptr<Group> make_group([[maybe_unused]] const std::string& backend,
                                     [[maybe_unused]] const c10::intrusive_ptr<c10d::Store>& store,
                                     [[maybe_unused]] int64_t rank, [[maybe_unused]] int64_t size,
                                     [[maybe_unused]] const std::string& address,
                                     [[maybe_unused]] std::chrono::milliseconds limit) {
#if STIEFEL_HAS_NCCL
  if (backend == "nccl") {
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = limit;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(rank), static_cast<int>(size),
                                                       options);
  }
#endif
#if STIEFEL_HAS_GLOO
  return c10::make_intrusive<Gloo>(store, static_cast<int>(rank), static_cast<int>(size),
                                   gloo_options(address, limit));
#else
  throw std::logic_error("choose_backend() refused this");
#endif
}

void shut_down([[maybe_unused]] Group& group) {
#if STIEFEL_HAS_NCCL
  if (auto* nccl = dynamic_cast<c10d::ProcessGroupNCCL*>(&group)) call_shutdown(*nccl, 0);
#endif
}

}  // namespace stiefel::distributed
