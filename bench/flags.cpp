#include "flags.h"

#include <stdexcept>

#include "base/numbers.h"

namespace stiefel::bench {

const char* const kUsage =
    R"(Times one optimiser step of stiefel beside its peers and prints a table of ratios.

  step_benchmark [--quick] [--threads N] [--benchmark_…]

  --quick       no whole networks, no large squares, no SVD and no n×n solve: under two minutes on two cores
                (all: about ten)
  --threads N   threads for LibTorch (default: OMP_NUM_THREADS, else all cores)
  --help        this

Cases are called WORKLOAD/METHOD. Flags of Google Benchmark work, among them
  --benchmark_filter=REGEX         for example '^640x5760/' or '/(ours|dense)/'
  --benchmark_list_tests           what there is
  --benchmark_out=FILE.json        every run, as JSON
  --benchmark_format=json          the same on the standard output; the table then goes to the error stream
  --benchmark_repetitions=N        runs of a case (default 7; 3 for whole networks and the largest)
  --benchmark_min_time=SECONDS     the length of a run, at least one step (default 0.1)
  --benchmark_enable_random_interleaving=false    case after case instead of mixed
)";

namespace {

bool starts_with(const std::string& text, const std::string& with) { return text.rfind(with, 0) == 0; }

int64_t thread_count(const std::string& word) {
  int64_t value = 0;
  try {
    value = base::to_whole(word);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(std::string("--threads: ") + error.what());
  }
  if (value < 1) throw std::invalid_argument("--threads takes a positive number; got '" + word + "'");
  return value;
}

}  // namespace

Flags Flags::parse(int argc, char** argv) {
  Flags flags;
  flags.rest = {argv[0], "--benchmark_repetitions=7", "--benchmark_min_time=0.1",
                "--benchmark_enable_random_interleaving=true"};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--quick") {
      flags.quick = true;
    } else if (flag == "--help" || flag == "-h") {
      flags.help = true;
    } else if (flag == "--threads") {
      if (i + 1 == argc) throw std::invalid_argument("--threads takes a number");
      flags.threads = thread_count(argv[++i]);
    } else if (starts_with(flag, "--threads=")) {
      flags.threads = thread_count(flag.substr(10));
    } else {
      flags.repetitions |= starts_with(flag, "--benchmark_repetitions");
      flags.to_stdout |= starts_with(flag, "--benchmark_format");
      flags.rest.push_back(flag);
    }
  }
  return flags;
}

}  // namespace stiefel::bench
