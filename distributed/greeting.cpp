#include "greeting.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <string>

namespace stiefel::distributed {

namespace {

using std::chrono::milliseconds;

/// A socket that does not wait.
class Socket {
 public:
  explicit Socket(const addrinfo& place)
      : file_(::socket(place.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, place.ai_protocol)) {}
  ~Socket() {
    if (file_ >= 0) ::close(file_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool connect_to(const addrinfo& place, milliseconds limit) {
    if (file_ < 0) return false;
    if (::connect(file_, place.ai_addr, place.ai_addrlen) == 0) return true;
    if (errno != EINPROGRESS || !comes(POLLOUT, limit)) return false;
    int error = 0;
    socklen_t size = sizeof error;
    return ::getsockopt(file_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }

  std::string hear(milliseconds limit) {
    std::array<char, 64> heard{};
    if (!comes(POLLIN, limit)) return {};
    const auto size = ::recv(file_, heard.data(), heard.size(), 0);
    return size > 0 ? std::string(heard.data(), static_cast<size_t>(size)) : std::string();
  }

 private:
  bool comes(short event, milliseconds limit) {
    pollfd watched{file_, event, 0};
    return ::poll(&watched, 1, static_cast<int>(limit.count())) > 0;
  }

  int file_;
};

}  // namespace

std::string greeting_of(const std::string& host, int64_t port, milliseconds limit) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) return {};
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> places(found, &::freeaddrinfo);
  for (const auto* place = found; place != nullptr; place = place->ai_next) {
    Socket socket(*place);
    if (socket.connect_to(*place, limit)) return socket.hear(limit);
  }
  return {};
}

}  // namespace stiefel::distributed
