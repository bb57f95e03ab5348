#pragma once

#include <string>
#include <string_view>
#include <vector>

/// A fuzz target is a reader and what must hold of it for every input. A file defines one:
///
///     FUZZ_TARGET(json) {
///       …  // `input` holds the bytes
///     }
///
/// The same file is linked twice: with libFuzzer, which makes up inputs (libfuzzer.cpp), and with all others
/// into corpus_test, which replays those that are kept in corpus/ (replay.cpp).
namespace fuzz {

struct Target {
  const char* name;
  void (*run)(std::string_view input);
};

/// All targets that are linked into this program.
std::vector<Target>& targets();

struct Registration {
  Registration(const char* name, void (*run)(std::string_view)) { targets().push_back({name, run}); }
};

/// What must hold does not: a finding, which ends the program.
[[noreturn]] void broken(std::string_view what);

/// A finding where findings are collected: thrown instead, and caught by whoever set it so.
struct Finding {
  std::string what;
};
void collect_findings();

inline void require(bool holds, std::string_view what) {
  if (!holds) broken(what);
}

}  // namespace fuzz

#define FUZZ_TARGET(name)                                               \
  static void run_##name(std::string_view input);                       \
  static const fuzz::Registration registered_##name(#name, run_##name); \
  static void run_##name([[maybe_unused]] std::string_view input)
