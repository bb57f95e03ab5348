#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>

#include "target.h"

// Replays inputs that are kept, without libFuzzer:
//
//     corpus_test CORPUS           each target on the files of CORPUS/TARGET
//     corpus_test TARGET FILE…     one target on these files
//     corpus_test --random TARGET COUNT [SEED]
//                                  one target on so many inputs of 96 random bytes, each from a seed of its
//                                  own
//
// The first file that breaks a property ends the program, which then names it; of seeds, all that do are
// named.

namespace {

namespace fs = std::filesystem;

std::string current;  // the file under way

extern "C" void name_current_file(int signal) {
  // Only what may be called in a signal handler.
  constexpr const char* kText = "corpus_test: broken by ";
  (void)!::write(STDERR_FILENO, kText, std::strlen(kText));
  (void)!::write(STDERR_FILENO, current.data(), current.size());
  (void)!::write(STDERR_FILENO, "\n", 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::string read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  if (!stream) throw std::runtime_error(file.string() + ": cannot be opened");
  return {std::istreambuf_iterator<char>(stream), {}};
}

void replay(const fuzz::Target& target, const fs::path& file) {
  current = file.string();
  target.run(read(file));
}

bool replay_folder(const fuzz::Target& target, const fs::path& folder) {
  std::vector<fs::path> files;
  if (fs::is_directory(folder)) {
    for (const auto& entry : fs::directory_iterator(folder)) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  const auto start = std::chrono::steady_clock::now();
  for (const auto& file : files) replay(target, file);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%-20s %4zu inputs, %.2f s\n", target.name, files.size(), took.count());
  std::fflush(stdout);
  if (files.empty()) std::cerr << folder.string() << ": no inputs for the target " << target.name << "\n";
  return !files.empty();
}

/// Goes on past findings, so that one run shows all of them.
bool replay_random(const fuzz::Target& target, int64_t count, int64_t first_seed) {
  fuzz::collect_findings();
  int64_t found = 0;
  for (int64_t seed = first_seed; seed < first_seed + count; ++seed) {
    current = "the seed " + std::to_string(seed);
    std::mt19937 random(static_cast<uint32_t>(seed));
    std::string input;
    for (int i = 0; i < 96; ++i) input += static_cast<char>(random() & 0xff);
    try {
      target.run(input);
    } catch (const fuzz::Finding& finding) {
      ++found;
      std::cerr << "broken by " << current << ": " << finding.what << "\n";
    } catch (const std::exception& error) {
      ++found;
      std::cerr << "broken by " << current << ": an exception: " << error.what() << "\n";
    }
  }
  std::printf("%s: %lld inputs, %lld findings\n", target.name, static_cast<long long>(count),
              static_cast<long long>(found));
  return found == 0;
}

int run(int argc, char** argv) {
  auto& all = fuzz::targets();
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return std::strcmp(a.name, b.name) < 0; });
  if (argc == 2) {
    bool whole = true;
    for (const auto& target : all) whole &= replay_folder(target, fs::path(argv[1]) / target.name);
    return whole ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  const bool random = argc > 3 && std::strcmp(argv[1], "--random") == 0;
  const char* name = argc > 2 ? argv[random ? 2 : 1] : "";
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const auto& target) { return std::strcmp(target.name, name) == 0; });
  if (found == all.end()) {
    std::cerr << "usage: corpus_test CORPUS, corpus_test TARGET FILE…, or corpus_test --random TARGET COUNT "
                 "[SEED]; the targets are";
    for (const auto& target : all) std::cerr << " " << target.name;
    std::cerr << "\n";
    return EXIT_FAILURE;
  }
  if (random) {
    const int64_t first = argc > 4 ? std::stoll(argv[4]) : 0;
    return replay_random(*found, std::stoll(argv[3]), first) ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  for (int i = 2; i < argc; ++i) replay(*found, argv[i]);
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  for (const int signal : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS, SIGILL}) std::signal(signal, name_current_file);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "corpus_test: " << current << ": " << error.what() << "\n";
    return EXIT_FAILURE;
  }
}
