#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/stopwatch.h"
#include "base/table.h"
#include "base/terminal_line.h"
#include "tests/soak/process_facts.h"
#include "tests/soak/soak.h"

// Every optimizer over many steps with hostile gradients. Exits with 1 at the first promise that is not kept.
//
//     stiefel_soak [SCALE] [--only TEXT] [--seed N]
//
// SCALE 1, the default, is 10⁶ steps of each method on small matrices, shared out among the types, and 10⁵ on
// each network (a tenth for methods that take a decomposition per step). --only: the methods whose name
// contains TEXT.

namespace {

using namespace soak;

const std::vector<at::ScalarType> kTypes{at::kFloat,         at::kDouble, at::kComplexFloat,
                                         at::kComplexDouble, at::kHalf,   at::kBFloat16};

constexpr double kSmallSteps = 1e6;
constexpr double kNetworkSteps = 1e5;
constexpr double kReplays = 1e5;

struct Arguments {
  double scale = 1;
  std::string only;
  uint64_t seed = 1;
};

[[noreturn]] void refuse(const std::string& what) {
  throw std::invalid_argument(what + "; usage: stiefel_soak [SCALE] [--only TEXT] [--seed N]");
}

Arguments read_arguments(const std::vector<std::string>& words) {
  Arguments arguments;
  for (size_t i = 0; i < words.size(); ++i) {
    const auto& word = words[i];
    const bool named = word == "--only" || word == "--seed";
    if (named && i + 1 == words.size()) refuse(word + " needs a value");
    if (word == "--only") {
      arguments.only = words[++i];
      continue;
    }
    const auto& number = word == "--seed" ? words[++i] : word;
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0' || !(value > 0) || !(value <= 1e6)) {
      refuse(
          fmt::format("{} is '{}', not a positive number", word == "--seed" ? "the seed" : "SCALE", number));
    }
    if (word == "--seed") {
      arguments.seed = static_cast<uint64_t>(value);
    } else {
      arguments.scale = value;
    }
  }
  return arguments;
}

Plan plan_of(double steps, const Arguments& arguments) {
  Plan plan{std::max<int64_t>(20, std::llround(steps * arguments.scale))};
  plan.look_every = std::min<int64_t>(plan.look_every, plan.steps / 5);  // a short run is looked at too
  plan.seed = arguments.seed;
  return plan;
}

void add_row(stiefel::base::Table& table, const Method& method, const Shapes& shapes, const std::string& kind,
             const Plan& plan, const Result& result) {
  table.add({method.name, kind, shapes.name, std::to_string(plan.steps),
             fmt::format("{:.1e}", result.largest), fmt::format("{:.2f}", result.worst_defect),
             std::to_string(result.not_finite), std::to_string(result.growth >> 10),
             fmt::format("{:.1f}", result.seconds)});
}

int run(const Arguments& arguments) {
  stiefel::base::TerminalLine line(stderr);
  stiefel::base::Table table({"method", "type", "weights", "steps", "largest defect", "of its bound",
                              "not finite, skipped", "memory growth, KiB", "seconds"},
                             "lllr");
  const stiefel::base::Stopwatch stopwatch;
  bool has_gpu = true;
  int64_t steps = 0, looks_at = 0;
  std::string broken;
  try {
    for (const auto& method : methods()) {
      if (method.name.find(arguments.only) == std::string::npos) continue;
      for (const auto type : kTypes) {
        const auto plan = plan_of(kSmallSteps / static_cast<double>(kTypes.size()), arguments);
        add_row(table, method, small_matrices(), c10::toString(type), plan,
                soak::soak(method, small_matrices(), type, plan, line));
        steps += plan.steps;
        ++looks_at;
      }
      for (const auto& network : networks()) {
        const auto plan = plan_of(kNetworkSteps * (method.reach == Reach::kAny ? 1 : 0.1), arguments);
        add_row(table, method, network, c10::toString(at::kFloat), plan,
                soak::soak(method, network, at::kFloat, plan, line));
        steps += plan.steps;
        ++looks_at;
      }
      // What can be captured, of the three that are made for it.
      if (method.name.rfind("Cayley", 0) != 0 || !has_gpu) continue;
      const auto plan = plan_of(kReplays, arguments);
      Result result;
      has_gpu = soak_captured(method, small_matrices(), plan, result, line);
      if (has_gpu) add_row(table, method, small_matrices(), "captured", plan, result);
    }
  } catch (const Broken& error) {
    broken = error.what();
  }
  line.clear();
  std::cout << table.text();
  if (!broken.empty()) {
    std::cout << std::flush;
    std::cerr << "stiefel_soak: a promise is broken: " << broken << "\n";
    return 1;
  }
  if (looks_at == 0) refuse(fmt::format("no method's name contains '{}'", arguments.only));
  std::cout << fmt::format(
      "{} steps by {} optimizers in {:.0f} s, seed {}; {} files open, {} MiB of memory\n", steps, looks_at,
      stopwatch.seconds(), arguments.seed, open_handles(), resident_bytes() >> 20);
  if (!has_gpu) std::cout << "no GPU: captured steps were not replayed\n";
  return std::cout.flush() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (!std::getenv("OMP_NUM_THREADS")) at::set_num_threads(1);  // small matrices
  try {
    return run(read_arguments({argv + 1, argv + argc}));
  } catch (const std::exception& error) {
    std::cerr << "stiefel_soak: " << error.what() << "\n";
    return 2;
  }
}
