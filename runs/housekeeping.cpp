#include "housekeeping.h"

namespace stiefel::train {

void adopt_housekeeping(Config& config, const Config& other) {
  config.threads = other.threads;
  config.data_dir = other.data_dir;
  config.tensorboard = other.tensorboard;
  config.checkpoint_every = other.checkpoint_every;
  config.graph = other.graph;
}

}  // namespace stiefel::train
