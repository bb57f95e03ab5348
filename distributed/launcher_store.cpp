#include "launcher_store.h"

#include "heartbeat.h"
#include "store.h"

namespace stiefel::distributed {

namespace {

constexpr const char* kThisMachine = "127.0.0.1";

c10::intrusive_ptr<c10d::TCPStore> open_on_free_port() {
  return c10::make_intrusive<c10d::TCPStore>(kThisMachine, store_options(/*server=*/true, 0));
}

}  // namespace

LauncherStore::LauncherStore() : store_(open_on_free_port()) {}

Launch LauncherStore::launch(int64_t rank, int64_t size) const {
  Launch launch;
  launch.rank = launch.local_rank = rank;
  launch.size = size;
  launch.address = kThisMachine;
  launch.port = store_->getPort();
  launch.launcher_store = true;
  return launch;
}

std::string LauncherStore::lost() const { return lost_rank(*numbered_store(store_, 0)); }

}  // namespace stiefel::distributed
