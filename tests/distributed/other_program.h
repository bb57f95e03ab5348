#pragma once

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace stiefel::test {

/// Another program that has a port of this machine. It takes every connection, greets it, answers all that it
/// hears with the same, and does not care what that is.
class OtherProgram {
 public:
  explicit OtherProgram(std::string says, std::string greets = "")
      : listening_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        says_(std::move(says)),
        greets_(std::move(greets)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* plain = reinterpret_cast<sockaddr*>(&address);
    ::bind(listening_, plain, size);
    ::listen(listening_, 16);
    ::getsockname(listening_, plain, &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { take_connections(); });
  }
  ~OtherProgram() {
    ended_ = true;
    thread_.join();
    for (const int each : connections_) ::close(each);
    ::close(listening_);
  }
  OtherProgram(const OtherProgram&) = delete;
  OtherProgram& operator=(const OtherProgram&) = delete;

  int64_t port() const { return port_; }

 private:
  void take_connections() {
    std::vector<pollfd> events{{listening_, POLLIN, 0}};
    while (!ended_) {
      if (::poll(events.data(), events.size(), 20) <= 0) continue;
      for (size_t i = 1; i < events.size(); ++i) {
        std::array<char, 4096> heard{};
        if (events[i].revents == 0) continue;
        if (::recv(events[i].fd, heard.data(), heard.size(), 0) <= 0) {
          events[i].events = 0;
          events[i].fd = -1;  // which poll() passes over
        } else {
          static_cast<void>(!::send(events[i].fd, says_.data(), says_.size(), MSG_NOSIGNAL));
        }
      }
      if (events[0].revents == 0) continue;
      const int connection = ::accept(listening_, nullptr, nullptr);
      if (connection < 0) continue;
      connections_.push_back(connection);
      static_cast<void>(!::send(connection, greets_.data(), greets_.size(), MSG_NOSIGNAL));
      events.push_back({connection, POLLIN, 0});
    }
  }

  int listening_;
  std::string says_, greets_;
  int64_t port_ = 0;
  std::vector<int> connections_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace stiefel::test
