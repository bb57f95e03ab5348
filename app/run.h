#pragma once

namespace stiefel::app {

/// The stiefel command: takes the arguments of main() and returns its exit status.
int run(int argc, char** argv);

}  // namespace stiefel::app
