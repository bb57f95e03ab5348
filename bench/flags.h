#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stiefel::bench {

/// The command line: our own flags, and what is left for Google Benchmark.
struct Flags {
  bool quick = false;
  bool help = false;
  int64_t threads = 0;            ///< 0: the number of cores, or what OMP_NUM_THREADS says
  bool repetitions = false;       ///< whether the user chose --benchmark_repetitions
  bool to_stdout = false;         ///< whether the user asked for Google Benchmark's own output
  std::vector<std::string> rest;  ///< the program's name, our defaults, then the user's flags, which win

  /// Throws std::invalid_argument with a sentence for the user.
  static Flags parse(int argc, char** argv);
};

/// What --help prints before Google Benchmark's own flags.
extern const char* const kUsage;

}  // namespace stiefel::bench
