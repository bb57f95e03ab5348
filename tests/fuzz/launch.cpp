#include "distributed/launch.h"

#include <stdexcept>

#include "errors.h"

// The variables of a launcher, a NAME=VALUE per line: refused by std::invalid_argument, or a launch whose
// numbers fit each other and which stays the same when it is handed on.

namespace launch_target {

FUZZ_TARGET(launch) {
  using namespace stiefel::distributed;
  Environment environment;
  while (!input.empty()) {
    const auto line = input.substr(0, input.find('\n'));
    input.remove_prefix(std::min(input.size(), line.size() + 1));
    const auto equals = line.find('=');
    if (equals == std::string_view::npos) continue;
    environment[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
  std::optional<Launch> launch;
  if (!fuzz::reads<std::invalid_argument>([&] { launch = read_launch(environment); }) || !launch) return;
  fuzz::require(launch->rank >= 0 && launch->rank < launch->size, "a rank that is none");
  fuzz::require(launch->local_rank >= 0 && launch->local_rank < launch->size, "a local rank that is none");
  fuzz::require(launch->port > 0 && launch->port < 65536, "a port that is none");
  fuzz::check_message(launch->meeting_place());
  const auto variables = variables_of(*launch);
  fuzz::require(variables_of(*read_launch(variables)) == variables, "a launch changes when it is handed on");
}

}  // namespace launch_target
