#include "ranks.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <torch/cuda.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

#if STIEFEL_HAS_CUDA
#include <c10/cuda/CUDAFunctions.h>
#endif

#include "base/interrupt.h"
#include "base/printable.h"
#include "base/standard_streams.h"
#include "distributed/group.h"
#include "distributed/join.h"
#include "distributed/local_ranks.h"
#include "number_options.h"
#include "record/system.h"

namespace stiefel::app {

namespace {

constexpr int64_t kMostProcesses = 1024;
constexpr const char* kThreads = "OMP_NUM_THREADS";

/// One GPU per rank of a machine. Over Gloo several ranks may share one.
void choose_gpu([[maybe_unused]] const distributed::Launch& launch,
                [[maybe_unused]] const std::string& backend) {
#if STIEFEL_HAS_CUDA
  const auto count = static_cast<int64_t>(torch::cuda::device_count());
  // A launcher may show each process its own GPU alone.
  if (count <= 1) return;
  if (launch.local_rank >= count && backend != "gloo") {
    throw std::invalid_argument(
        fmt::format("LOCAL_RANK is {}, but this machine has {} GPUs; start at most {} processes on it, or "
                    "use --backend gloo, "
                    "with which processes may share a GPU",
                    launch.local_rank, count, count));
  }
  c10::cuda::set_device(static_cast<c10::DeviceIndex>(launch.local_rank % count));
#endif
}

/// What must be alike on all ranks: a line each.
std::string identity_of(const std::string& command) {
  const auto versions = record::version_facts();
  return fmt::format("command: stiefel {}\nstiefel: {} ({})\nLibTorch: {}\n", command,
                     versions["stiefel"].get<std::string>(), record::commit(),
                     versions["libtorch"].get<std::string>());
}

/// Ends this process where the main thread cannot, because it waits for a rank that is lost.
[[noreturn]] void end_process(const std::string& message) {
  // What was printed so far would be lost with the process; the main thread may hold the stream.
  if (ftrylockfile(stdout) == 0) {
    std::fflush(stdout);
    funlockfile(stdout);
  }
  if (!message.empty()) base::say(message);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

void RankOptions::add(CLI::App& command) {
  command
      .add_option(
          "--processes", processes,
          "how many processes to start here, which train together; a launcher such as torchrun starts them "
          "itself")
      ->transform(whole_number(1, kMostProcesses));
  command
      .add_option("--backend", backend,
                  "what connects processes: auto (nccl on GPUs, gloo else), gloo or nccl")
      ->check(CLI::IsMember({"auto", "gloo", "nccl"}))
      ->capture_default_str();
  command
      .add_option("--timeout", timeout,
                  "seconds after which a process that has not been heard of ends the run")
      ->check(number(base::Interval{1, 86400}))
      ->capture_default_str();
}

std::optional<distributed::Launch> RankOptions::find_launch() const {
  const auto launch = distributed::read_launch(distributed::launch_variables());
  if (launch && processes != 0 && processes != launch->size) {
    throw std::invalid_argument(
        fmt::format("--processes is {}, but a launcher has started this process as one of WORLD_SIZE = {}; "
                    "leave --processes "
                    "away, or unset RANK, WORLD_SIZE and LOCAL_RANK",
                    processes, launch->size));
  }
  return launch;
}

std::string RankOptions::resume_command(const std::filesystem::path& folder) const {
  return fmt::format("stiefel resume {}{}", base::shell_word(folder),
                     processes == 0 ? "" : fmt::format(" --processes {}", processes));
}

std::string RankOptions::remedy(const std::filesystem::path& folder) const {
  std::error_code none;
  return std::filesystem::exists(folder / "config.toml", none)
             ? "go on from the last checkpoint with: " + resume_command(folder)
             : "nothing was written yet";
}

distributed::LocalOutcome start_processes(const RankOptions& options, const Context& context,
                                          int64_t threads) {
  distributed::Environment more;
  if (threads == 0 && std::getenv(kThreads) == nullptr) {
    const int64_t all = std::max(1U, std::thread::hardware_concurrency());
    more[kThreads] = std::to_string(std::max<int64_t>(1, all / options.processes));
  }
  std::fflush(stdout);
  return distributed::run_local_ranks(options.processes, context.command, more);
}

void run_processes(const RankOptions& options, const Context& context, int64_t threads,
                   const std::filesystem::path& folder) {
  const auto outcome = start_processes(options, context, threads);
  if (!outcome.what.empty()) {
    base::say(fmt::format("stiefel: {}; all ranks have ended; {}", outcome.what, options.remedy(folder)));
  } else if (outcome.signal != 0) {
    base::say(fmt::format("stopped by {}; {}", base::signal_name(outcome.signal), options.remedy(folder)));
  }
  if (outcome.status != 0) throw Exit{outcome.status};
}

distributed::JoinOptions join_options(const distributed::Launch& launch, const RankOptions& options,
                                      const std::string& command, std::optional<bool> on_gpu) {
  distributed::JoinOptions join;
  join.backend = options.backend;
  join.on_gpu = on_gpu;
  join.timeout = std::chrono::milliseconds(static_cast<int64_t>(options.timeout * 1000));
  join.identity = identity_of(command);
  if (on_gpu.value_or(true)) choose_gpu(launch, distributed::choose_backend(options.backend, true));
  return join;
}

void with_world(const std::optional<distributed::Launch>& launch, const RankOptions& options,
                const std::string& command, std::optional<bool> on_gpu, const std::filesystem::path& folder,
                const std::function<void(const std::shared_ptr<distributed::World>&)>& act) {
  if (!launch) {
    if (options.backend != "auto") {
      throw std::invalid_argument(fmt::format(
          "--backend is {}, but this is one process, which has no other to be connected with; add "
          "--processes N, start it by a launcher such as torchrun, or leave --backend away",
          options.backend));
    }
    return act(nullptr);
  }
  auto join = join_options(*launch, options, command, on_gpu);
  join.on_lost = [&](const std::string& what) {
    // Whoever has started the ranks of this machine says it once for all.
    end_process(distributed::is_local_rank() ? ""
                                             : fmt::format("{}{}; this rank ends too; {}", error_prefix(),
                                                           base::printable(what), options.remedy(folder)));
  };
  // An end that all ranks come to is not an error of this one, which the others would be told of.
  std::exception_ptr end;
  {
    const auto world = distributed::join(*launch, join);
    try {
      act(world);
    } catch (const distributed::SharedError&) {
      end = std::current_exception();
    } catch (const Exit&) {
      end = std::current_exception();
    }
  }
  if (end) std::rethrow_exception(end);
}

bool is_first(const std::shared_ptr<distributed::World>& world) { return !world || world->rank() == 0; }

std::string error_prefix() {
  try {
    if (const auto launch = distributed::read_launch(distributed::launch_variables())) {
      return fmt::format("rank {}: stiefel: ", launch->rank);
    }
  } catch (const std::invalid_argument&) {
    // Then this is what is being reported.
  }
  return "stiefel: ";
}

bool is_other_rank() {
  try {
    const auto launch = distributed::read_launch(distributed::launch_variables());
    return launch && launch->rank > 0;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

}  // namespace stiefel::app
