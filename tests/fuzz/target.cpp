#include "target.h"

#include <cstdlib>
#include <iostream>

namespace fuzz {

std::vector<Target>& targets() {
  static std::vector<Target> all;  // filled before main(), in any order of the files
  return all;
}

namespace {

bool collects = false;

}  // namespace

void collect_findings() { collects = true; }

void broken(std::string_view what) {
  if (collects) throw Finding{std::string(what)};
  std::cerr << "fuzz target: " << what << std::endl;
  std::abort();
}

}  // namespace fuzz
