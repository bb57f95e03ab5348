#include "launch.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <limits>
#include <stdexcept>

#include "base/excerpt.h"
#include "base/numbers.h"

namespace stiefel::distributed {

namespace {

constexpr const char* kRemedy =
    "start every process by torchrun, or by another launcher that sets RANK, WORLD_SIZE, LOCAL_RANK, "
    "MASTER_ADDR and MASTER_PORT; or unset these and use --processes";

constexpr std::array<const char*, 8> kNames{"RANK",
                                            "WORLD_SIZE",
                                            "LOCAL_RANK",
                                            "LOCAL_WORLD_SIZE",
                                            "MASTER_ADDR",
                                            "MASTER_PORT",
                                            "TORCHELASTIC_USE_AGENT_STORE",
                                            "TORCHELASTIC_RESTART_COUNT"};

[[noreturn]] void refuse(const std::string& name, const std::string& value, const std::string& must) {
  throw std::invalid_argument(name + " is '" + base::excerpt(value) + "', but must be " + must + "; " +
                              kRemedy);
}

class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  bool has(const std::string& name) const { return environment_.count(name) > 0; }

  const std::string& text(const std::string& name) const {
    const auto found = environment_.find(name);
    if (found == environment_.end()) {
      throw std::invalid_argument(name + " is not set, though " + first_set() + " is; " + kRemedy);
    }
    return found->second;
  }

  /// A whole number in decimal digits and nothing else.
  int64_t number(const std::string& name, int64_t low, int64_t high, const std::string& must) const {
    const auto& value = text(name);
    const bool digits = !value.empty() &&
                        std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; });
    // 18 digits always fit.
    if (!digits || value.size() > 18) refuse(name, value, must);
    const auto result = base::to_whole(value);
    if (result < low || result > high) refuse(name, value, must);
    return result;
  }

  bool flag(const std::string& name) const {
    const auto& value = text(name);
    if (value != "True" && value != "False") refuse(name, value, "True or False");
    return value == "True";
  }

 private:
  std::string first_set() const {
    for (const char* name : kNames) {
      if (has(name)) return name;
    }
    return "another";
  }

  const Environment& environment_;
};

void check_address(const std::string& value) {
  const auto allowed = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '-' || c == '_' || c == ':' || c == '%';
  };
  const std::string must = "a host name or an address of IPv4 or IPv6";
  if (value.empty() || value.size() > 253 || !std::all_of(value.begin(), value.end(), allowed)) {
    refuse("MASTER_ADDR", value, must);
  }
  // An address of IPv6 has two colons at least.
  if (std::count(value.begin(), value.end(), ':') == 1) {
    refuse("MASTER_ADDR", value, must + " without a port, which is MASTER_PORT's");
  }
}

}  // namespace

std::string Launch::meeting_place() const {
  const bool v6 = address.find(':') != std::string::npos;
  return (v6 ? "[" + address + "]" : address) + ":" + std::to_string(port);
}

std::optional<Launch> read_launch(const Environment& environment) {
  const Reader reader(environment);
  if (!reader.has("RANK") && !reader.has("WORLD_SIZE") && !reader.has("LOCAL_RANK")) return {};
  Launch launch;
  // c10d counts ranks as int.
  constexpr int64_t most = std::numeric_limits<int32_t>::max();
  launch.size = reader.number("WORLD_SIZE", 1, most, "a whole number of processes, at least 1");
  const auto size = std::to_string(launch.size);
  launch.rank = reader.number("RANK", 0, launch.size - 1,
                              "from 0 to WORLD_SIZE − 1 = " + std::to_string(launch.size - 1));
  if (reader.has("LOCAL_WORLD_SIZE")) {
    const auto local = reader.number("LOCAL_WORLD_SIZE", 1, launch.size, "from 1 to WORLD_SIZE = " + size);
    // Without LOCAL_RANK all of them would choose the same GPU.
    if (local > 1 || reader.has("LOCAL_RANK")) {
      launch.local_rank = reader.number("LOCAL_RANK", 0, local - 1,
                                        "from 0 to LOCAL_WORLD_SIZE − 1 = " + std::to_string(local - 1));
    }
  } else if (reader.has("LOCAL_RANK")) {
    launch.local_rank = reader.number("LOCAL_RANK", 0, launch.size - 1,
                                      "from 0 to WORLD_SIZE − 1 = " + std::to_string(launch.size - 1));
  }
  launch.address = reader.text("MASTER_ADDR");
  check_address(launch.address);
  launch.port = reader.number("MASTER_PORT", 1, 65535, "a port, from 1 to 65535");
  if (reader.has("TORCHELASTIC_USE_AGENT_STORE")) {
    launch.launcher_store = reader.flag("TORCHELASTIC_USE_AGENT_STORE");
  }
  if (launch.launcher_store || reader.has("TORCHELASTIC_RESTART_COUNT")) {
    launch.attempt = reader.number("TORCHELASTIC_RESTART_COUNT", 0, most, "a whole number, at least 0");
  }
  return launch;
}

Environment launch_variables() {
  Environment found;
  for (const char* name : kNames) {
    if (const char* value = std::getenv(name)) found[name] = value;
  }
  return found;
}

Environment variables_of(const Launch& launch) {
  return {{"RANK", std::to_string(launch.rank)},
          {"WORLD_SIZE", std::to_string(launch.size)},
          {"LOCAL_RANK", std::to_string(launch.local_rank)},
          {"MASTER_ADDR", launch.address},
          {"MASTER_PORT", std::to_string(launch.port)},
          {"TORCHELASTIC_USE_AGENT_STORE", launch.launcher_store ? "True" : "False"},
          {"TORCHELASTIC_RESTART_COUNT", std::to_string(launch.attempt)}};
}

}  // namespace stiefel::distributed
