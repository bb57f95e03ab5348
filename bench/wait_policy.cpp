#include "wait_policy.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

// By default a thread of GNU's OpenMP that waits for the others spins 300,000 times before it sleeps. Where
// another process needs the core, that keeps back the very thread that is waited for. A program that is
// linked with this file spins 1,000 times only, unless the user has chosen: that bridges the pauses between
// small operations, where a thread that slept at once would take longer to wake than its work takes. The
// OpenMP library reads the variable when it is loaded, before any code of the program but this: functions in
// .preinit_array run before the constructors of all libraries. They cannot change the environment, which the
// C library has yet to take over, so the program is started once more with the variable set. That costs the
// time to load the libraries, not to initialise them, and is left out where there is one thread, which waits
// for nobody.

namespace stiefel::bench {

namespace {

constexpr const char* kChosen = "GOMP_SPINCOUNT=1000";

/// The variables by which a user chooses: OpenMP's, GNU's and Intel's.
constexpr const char* kVariables[] = {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"};

// Code of a sanitiser must not run before the sanitiser.
#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

void start_with_policy(int, char** argv, char** environment) {
  size_t count = 0;
  for (; environment[count] != nullptr; ++count) {
    if (std::strcmp(environment[count], "OMP_NUM_THREADS=1") == 0) return;
    for (const auto* name : kVariables) {
      const auto length = std::strlen(name);
      if (std::strncmp(environment[count], name, length) == 0 && environment[count][length] == '=') return;
    }
  }
  char program[4096];
  const auto length = ::readlink("/proc/self/exe", program, sizeof program - 1);
  if (length <= 0) return;
  program[length] = '\0';
  auto** with_policy = static_cast<char**>(std::malloc((count + 2) * sizeof(char*)));
  if (with_policy == nullptr) return;
  std::memcpy(with_policy, environment, count * sizeof(char*));
  with_policy[count] = const_cast<char*>(kChosen);
  with_policy[count + 1] = nullptr;
  ::execve(program, argv, with_policy);
  std::free(with_policy);  // it could not be started: the library keeps its default
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const kStart)(int, char**, char**) = start_with_policy;

#endif

}  // namespace

std::string wait_policy() {
  for (const auto* name : kVariables) {
    if (const auto* value = std::getenv(name)) return std::string(name) + "=" + value;
  }
  return "";
}

}  // namespace stiefel::bench
