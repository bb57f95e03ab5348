#include "system.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "gpu_name.h"
#include "stiefel_version.h"

namespace stiefel::record {

namespace {

/// The value of the first line `name : value` of a file in /proc.
std::string proc_value(const char* file, const std::string& name) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const auto colon = line.find(':');
    const auto start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

/// The BLAS that this process has loaded, by its file.
std::string blas() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const auto slash = line.find('/');
    if (slash == std::string::npos) continue;
    const auto path = line.substr(slash);
    const std::filesystem::path file(path);
    const auto name = file.filename().string();
    for (const char* known : {"libopenblas", "libmkl", "libblis", "libblas"}) {
      // The folder tells variants apart.
      if (name.rfind(known, 0) == 0) return (file.parent_path().filename() / name).string();
    }
  }
  return at::hasMKL() ? "MKL" : "unknown";
}

}  // namespace

nlohmann::json hardware_facts() {
  const auto memory = proc_value("/proc/meminfo", "MemTotal");
  return {{"cpu", proc_value("/proc/cpuinfo", "model name")},
          {"cores", std::thread::hardware_concurrency()},
          {"memory_gib", memory.empty() ? 0 : std::round(std::stod(memory) / 1048576 * 10) / 10},
          {"gpu", gpu_name()}};
}

nlohmann::json version_facts() {
  return {{"stiefel", STIEFEL_VERSION},
          {"libtorch", TORCH_VERSION},
          {"compiler", "g++ " __VERSION__},
          {"blas", blas()}};
}

std::string commit() { return STIEFEL_COMMIT; }

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&now));
  return text;
}

}  // namespace stiefel::record
