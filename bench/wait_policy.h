#pragma once

#include <string>

namespace stiefel::bench {

/// How OpenMP's threads wait for work, as `OMP_WAIT_POLICY=active`: what the user set, or what a program
/// that is linked with stiefel_wait_policy sets where the user has set nothing. Empty: the OpenMP
/// library's default.
std::string wait_policy();

}  // namespace stiefel::bench
