#include "group.h"

#include <cstdlib>
#include <sstream>
#include <stdexcept>

#if STIEFEL_HAS_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
#if STIEFEL_HAS_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

namespace stiefel::distributed {

namespace {

[[maybe_unused, noreturn]] void refuse(const std::string& backend, const std::string& headers,
                                       const std::string& other) {
  throw std::invalid_argument("this program was built without " + backend + ": install " + headers +
                              " and build again, or use --backend " + other);
}

#if STIEFEL_HAS_GLOO
using Gloo = c10d::ProcessGroupGloo;

bool is_this_machine(const std::string& address) {
  return address == "localhost" || address == "::1" || address.rfind("127.", 0) == 0;
}

c10::intrusive_ptr<Gloo::Options> gloo_options(const std::string& address, std::chrono::milliseconds limit) {
  auto options = Gloo::Options::create(limit);
  // The variable by which PyTorch chooses network interfaces for Gloo; it reads it in Python alone.
  if (const char* names = std::getenv("GLOO_SOCKET_IFNAME"); names != nullptr && *names != '\0') {
    std::istringstream stream(names);
    for (std::string name; std::getline(stream, name, ',');) {
      options->devices.push_back(Gloo::createDeviceForInterface(name));
    }
  } else if (is_this_machine(address)) {
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

bool has_gloo() { return STIEFEL_HAS_GLOO; }
bool has_nccl() { return STIEFEL_HAS_NCCL; }

c10::intrusive_ptr<Group> make_group(const std::string& backend, const c10::intrusive_ptr<c10d::Store>& store,
                                     int64_t rank, int64_t size, const std::string& address,
                                     std::chrono::milliseconds limit) {
  if (backend == "nccl") {
#if STIEFEL_HAS_NCCL
    auto options = c10d::ProcessGroupNCCL::Options::create();
    options->timeout = limit;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, static_cast<int>(rank), static_cast<int>(size),
                                                       options);
#else
    refuse("NCCL", "a LibTorch with CUDA and NCCL's header nccl.h", "gloo");
#endif
  }
#if STIEFEL_HAS_GLOO
  return c10::make_intrusive<Gloo>(store, static_cast<int>(rank), static_cast<int>(size),
                                   gloo_options(address, limit));
#else
  refuse("Gloo", "Gloo's headers (libgloo-dev in Debian)", "nccl");
#endif
}

void shut_down([[maybe_unused]] Group& group) {
#if STIEFEL_HAS_NCCL
  if (auto* nccl = dynamic_cast<c10d::ProcessGroupNCCL*>(&group)) call_shutdown(*nccl, 0);
#endif
}

}  // namespace stiefel::distributed
