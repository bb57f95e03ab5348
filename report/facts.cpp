#include "report/facts.h"

#include <cmath>
#include <cstdio>

#include "base/format_number.h"
#include "base/printable.h"

namespace stiefel::report {

namespace {

/// "2026-11-15T13:00:00Z" as 2026-11-15 13:00:00 UTC; anything else stays as it is.
std::string moment(const std::string& iso) {
  if (iso.size() < 20 || iso[10] != 'T' || iso.back() != 'Z') return iso;
  return iso.substr(0, 10) + " " + iso.substr(11, 8) + " UTC";
}

std::string constrained(const RunFolder& run) {
  if (!(run.manifold_parameters > 0)) return "";
  std::string text = base::format_count(run.manifold_parameters);
  char share[64];
  if (run.parameters > 0) {
    std::snprintf(share, sizeof share, " (%.1f %%)", 100 * run.manifold_parameters / run.parameters);
    text += share;
  }
  if (run.manifold_matrices > 0) {
    text += " in " + base::format_count(run.manifold_matrices) +
            (run.manifold_matrices == 1 ? " matrix" : " matrices");
  }
  return text;
}

}  // namespace

std::vector<Pair> facts_of(const RunFolder& run) {
  std::vector<Pair> facts;
  const auto add = [&](const std::string& title, const std::string& value) {
    if (!value.empty()) facts.emplace_back(title, value);
  };
  const auto add_count = [&](const std::string& title, double value) {
    if (std::isfinite(value)) facts.emplace_back(title, base::format_count(value));
  };
  std::string command;
  for (const auto& word : run.command) command += (command.empty() ? "" : " ") + base::shell_quoted(word);
  add(kCommandFact, command);
  add("Folder", run.folder.string());
  add("Started", moment(run.started));
  add("Seed", run.seed);
  add_count("Parameters", run.parameters);
  add("Orthonormal", constrained(run));
  add("Device", run.device);
  add("Processor", run.cpu);
  add_count("Cores", run.cores);
  if (std::isfinite(run.memory_gib)) {
    char buffer[64];
    std::snprintf(buffer, sizeof buffer, "%.1f GiB", run.memory_gib);
    add("Memory", buffer);
  }
  add("GPU", run.gpu);
  add("Commit", run.commit);
  bool own_version = false;
  for (const auto& [name, version] : run.versions) {
    own_version = own_version || name == "stiefel";
    static const std::vector<Pair> titles = {
        {"libtorch", "LibTorch"}, {"compiler", "Compiler"}, {"blas", "BLAS"}};
    std::string title = name;
    for (const auto& [key, nicer] : titles) {
      if (key == name) title = nicer;
    }
    add(title, version);
  }
  if (!own_version) add("stiefel", run.version);
  return facts;
}

}  // namespace stiefel::report
