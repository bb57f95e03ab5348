#include "standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace stiefel::base {

void open_missing_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest number that is free is this stream's. It is opened the wrong way round.
    static_cast<void>(::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY));
  }
}

void say(const std::string& line) {
  std::fputs(line.c_str(), stderr);
  if (line.empty() || line.back() != '\n') std::fputc('\n', stderr);
  std::fflush(stderr);
}

int finish_output(int status) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  say(std::string("stiefel: the output cannot be written") + (errno != 0 ? ": " : "") +
      (errno != 0 ? std::strerror(errno) : ""));
  return status == 0 ? 1 : status;
}

}  // namespace stiefel::base
