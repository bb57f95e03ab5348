#include "tests/soak/soak.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "base/stopwatch.h"
#include "tests/soak/hostile_gradients.h"
#include "tests/soak/process_facts.h"

namespace soak {

namespace {

using at::Tensor;

/// What malloc may keep after the warm-up without it being a leak: ten times what was seen. In the whole soak
/// 32 bytes lost per step are more.
#ifdef __SANITIZE_ADDRESS__
constexpr int64_t kMemoryNoise =
    std::numeric_limits<int64_t>::max();  // it keeps freed memory, and finds leaks itself
#else
constexpr int64_t kMemoryNoise = 4 << 20;
#endif

std::string text_of(at::IntArrayRef shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

/// One optimizer under way.
class Walk {
 public:
  Walk(const Method& method, const Shapes& shapes, at::ScalarType type, uint64_t seed)
      : method_(method),
        shapes_(shapes),
        type_(type),
        weights_(make_weights(shapes, type, seed)),
        optimizer_(method.make(weights_)),
        gradients_(method, seed) {}

  void step() {
    try {
      not_finite_ += gradients_.set(weights_, steps_);
      optimizer_->step();
    } catch (const c10::Error& error) {
      fail(error.what_without_backtrace());
    }
    ++steps_;
    check_skipped(method_, shapes_, kind(), optimizer_->skipped_steps(), not_finite_, steps_);
  }

  int64_t steps() const { return steps_; }
  int64_t not_finite() const { return not_finite_; }

  void look(Result& result) const {
    check_defects(method_, shapes_, kind(), points(), steps_, result);
    result.not_finite = not_finite_;
  }

  std::vector<Tensor> copy() const {
    std::vector<Tensor> copies;
    for (const auto& weight : all_of(weights_)) copies.push_back(weight.detach().clone());
    return copies;
  }

  std::string kind() const { return c10::toString(type_); }

  [[noreturn]] void fail(const std::string& what) const {
    soak::fail(method_, shapes_, kind(), steps_, what);
  }

 private:
  /// The matrices that must be orthonormal: the weights, or their masters, whose roundings they must be.
  std::vector<Tensor> points() const {
    const auto weights = all_of(weights_);
    if (type_ != at::kHalf && type_ != at::kBFloat16) return weights;
    std::vector<Tensor> masters;
    for (const auto& entry : optimizer_->state()) {
      masters.push_back(static_cast<const stiefel::ParamState&>(*entry.second).master);
      const auto rounded = masters.back().to(type_);
      const bool found =
          std::any_of(weights.begin(), weights.end(), [&](const Tensor& w) { return at::equal(w, rounded); });
      if (!found) fail(fmt::format("a weight {} is not its master's rounding", text_of(rounded.sizes())));
    }
    return masters;
  }

  const Method& method_;
  const Shapes& shapes_;
  at::ScalarType type_;
  Weights weights_;
  std::unique_ptr<stiefel::ManifoldOptimizer> optimizer_;
  HostileGradients gradients_;
  int64_t steps_ = 0;
  int64_t not_finite_ = 0;
};

/// Checks that memory and handles stay as they are at the first look after the warm-up.
class Footprint {
 public:
  void look(const Walk& walk, Result& result) {
    if (!handles_) {
      resident_ = resident_bytes();
      handles_ = open_handles();
      return;
    }
    result.growth = std::max(result.growth, resident_bytes() - resident_);
    if (result.growth > kMemoryNoise) {
      walk.fail(fmt::format("resident memory has grown by {} KiB since the warm-up, from {} KiB",
                            result.growth >> 10, resident_ >> 10));
    }
    if (const auto handles = open_handles(); handles != *handles_) {
      walk.fail(fmt::format("{} files are open; after the warm-up there were {}", handles, *handles_));
    }
  }

 private:
  int64_t resident_ = 0;
  std::optional<int64_t> handles_;
};

}  // namespace

const Shapes& small_matrices() {
  static const Shapes shapes{"small matrices", {{4, 24}, {6, 6}, {24, 4}, {1, 16}, {3, 4, 9}}};
  return shapes;
}

const std::vector<Shapes>& networks() {
  static const std::vector<Shapes> all{
      {"small network", {{16, 25}, {32, 144}, {64, 288}, {64, 576}, {10, 256}}},
      {"WRN-16-4 / 4",
       {{16, 27},
        {16, 144},
        {16, 144},
        {16, 144},
        {16, 144},
        {32, 144},
        {32, 16},
        {32, 288},
        {32, 288},
        {32, 288},
        {64, 288},
        {64, 32},
        {64, 576},
        {64, 576},
        {64, 576}}},
  };
  return all;
}

Weights make_weights(const Shapes& shapes, at::ScalarType type, uint64_t seed) {
  torch::manual_seed(seed);
  const bool narrow = type == at::kHalf || type == at::kBFloat16;
  Weights weights;
  for (const auto& shape : shapes.all) {
    const bool stack = shape.size() == 3;
    auto weight = torch::empty(shape, narrow ? at::kFloat : type);
    stiefel::init::haar_(weight, stack);
    (stack ? weights.stacks : weights.matrices).push_back(weight.to(type).requires_grad_());
  }
  return weights;
}

std::vector<Tensor> all_of(const Weights& weights) {
  auto all = weights.matrices;
  all.insert(all.end(), weights.stacks.begin(), weights.stacks.end());
  return all;
}

void fail(const Method& method, const Shapes& shapes, const std::string& kind, int64_t step,
          const std::string& what) {
  throw Broken(fmt::format("{}, {}, {}, step {}: {}", method.name, kind, shapes.name, step, what));
}

void check_defects(const Method& method, const Shapes& shapes, const std::string& kind,
                   const std::vector<Tensor>& points, int64_t step, Result& result) {
  for (const auto& point : points) {
    const bool stack = point.dim() == 3;
    const double bound = method.bound.at(std::min(point.size(-2), point.size(-1)), point.scalar_type(), step);
    double defect = stiefel::defect(point.detach(), stack).max().item<double>();
    if (std::isnan(defect)) defect = INFINITY;
    if (!(defect <= bound)) {
      fail(method, shapes, kind, step,
           fmt::format("the defect of the weight {} is {:.3e}, above its bound {:.3e}",
                       text_of(point.sizes()), defect, bound));
    }
    result.worst_defect = std::max(result.worst_defect, defect / bound);
    result.largest = std::max(result.largest, defect);
  }
}

void check_skipped(const Method& method, const Shapes& shapes, const std::string& kind, int64_t skipped,
                   int64_t not_finite, int64_t step) {
  if (skipped == not_finite) return;
  fail(method, shapes, kind, step,
       fmt::format("{} steps of a matrix were skipped, but {} gradients were not finite", skipped,
                   not_finite));
}

void show_progress(stiefel::base::TerminalLine& line, const std::string& title, int64_t step, int64_t steps) {
  if (!line.is_due(line.is_terminal() ? std::chrono::milliseconds(200) : std::chrono::milliseconds(30000)))
    return;
  const auto text = fmt::format("{}: step {} of {}", title, step, steps);
  line.is_terminal() ? line.show(text) : line.print(text);
}

Result soak(const Method& method, const Shapes& shapes, at::ScalarType type, const Plan& plan,
            stiefel::base::TerminalLine& line) {
  const stiefel::base::Stopwatch stopwatch;
  Result result;
  Footprint footprint;
  Walk walk(method, shapes, type, plan.seed);
  const auto repeated = std::max<int64_t>(1, plan.steps / 10);
  std::vector<Tensor> then;
  const auto title = fmt::format("{}, {}, {}", method.name, c10::toString(type), shapes.name);
  while (walk.steps() < plan.steps) {
    walk.step();
    if (walk.steps() == repeated) then = walk.copy();
    if (walk.steps() % plan.look_every == 0 || walk.steps() == plan.steps) {
      walk.look(result);
      if (walk.steps() >= plan.steps / 5) footprint.look(walk, result);
      show_progress(line, title, walk.steps(), plan.steps);
    }
  }
  Walk again(method, shapes, type, plan.seed);
  while (again.steps() < repeated) again.step();
  const auto now = again.copy();
  for (size_t i = 0; i < now.size(); ++i) {
    if (!at::equal(now[i], then[i])) {
      again.fail(fmt::format("the weight {} is not the same in two runs of the seed {}",
                             text_of(now[i].sizes()), plan.seed));
    }
  }
  result.seconds = stopwatch.seconds();
  return result;
}

}  // namespace soak
