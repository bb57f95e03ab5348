#include "recurrence.h"

#include <fmt/format.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <memory>
#include <sstream>
#include <utility>

#include "base/table.h"
#include "models/recurrent_net.h"
#include "record/method_facts.h"
#include "start.h"

namespace stiefel::bench {

namespace {

constexpr int64_t kProductSize = 1024;

/// One optimiser on a unitary matrix of its own, with random gradients of the size that training shows.
struct UnitaryStepper {
  std::string title;
  at::Tensor k;
  std::unique_ptr<torch::optim::Optimizer> optimizer;

  double step() {
    k.mutable_grad() = torch::randn_like(k) * 1e-3;
    return seconds_of([this] { optimizer->step(); }, k.device());
  }
};

template <class Optimizer, class Options>
UnitaryStepper unitary_stepper(const char* method, int64_t n, const at::Device& device,
                               const Options& options) {
  auto k = torch::empty({n, n}, at::TensorOptions(torch::kComplexFloat).device(device));
  init::haar_(k);
  return {record::method_title(method), k, std::make_unique<Optimizer>(std::vector<at::Tensor>{k}, options)};
}

std::vector<UnitaryStepper> unitary_steppers(int64_t n, const at::Device& device) {
  std::vector<UnitaryStepper> all;
  all.push_back(unitary_stepper<CayleySGD>("cayley-sgd", n, device, CayleySGDOptions(0.01).momentum(0.9)));
  all.push_back(unitary_stepper<CayleyAdam>("cayley-adam", n, device, CayleyAdamOptions(0.1)));
  all.push_back(unitary_stepper<CayleyMuon>("cayley-muon", n, device, CayleyMuonOptions(0.01)));
  all.push_back(unitary_stepper<RetractionSGD<CayleyClosed>>("cayley-closed", n, device,
                                                             RetractionSGDOptions<CayleyClosed>(0.01)));
  return all;
}

}  // namespace

RecurrenceTimes time_recurrence(const RecurrencePlan& plan, const at::Device& device,
                                const std::function<void(const std::string&)>& progress) {
  const auto name = fmt::format("urnn-{}", plan.hidden);
  progress(name + ": starting");
  const models::RecurrenceKernelGuard guard(plan.kernel);
  auto steppers = unitary_steppers(plan.hidden, device);
  models::RecurrentNet net(models::RecurrentNet::Kind::kUnitary, plan.hidden, {1, 10, false});
  net.to(device);
  const auto images = torch::rand({plan.batch, plan.length, 1}, device);
  const auto labels = torch::randint(10, {plan.batch}, at::TensorOptions(torch::kLong).device(device));
  const auto factor =
      torch::randn({kProductSize, kProductSize}, at::TensorOptions(torch::kComplexFloat).device(device));
  auto product = torch::empty_like(factor);

  RecurrenceTimes times;
  times.steps.resize(steppers.size());
  for (size_t i = 0; i < steppers.size(); ++i) times.steps[i].method = steppers[i].title;
  for (int64_t round = -1; round < plan.rounds; ++round) {  // the first to warm up
    if (round >= 0) progress(fmt::format("{}: {} of {}", name, round + 1, plan.rounds));
    at::Tensor loss;
    const double forward =
        seconds_of([&] { loss = torch::cross_entropy_loss(net.forward(images), labels); }, device);
    net.zero_grad();
    const double backward = seconds_of([&] { loss.backward(); }, device);
    const double multiplication = seconds_of([&] { at::mm_out(product, factor, factor); }, device);
    std::vector<double> steps;
    for (auto& stepper : steppers) steps.push_back(stepper.step());
    if (round < 0) continue;
    times.forward.rounds.push_back({forward});
    times.backward.rounds.push_back({backward});
    times.both.rounds.push_back({forward + backward});
    times.product.rounds.push_back({multiplication});
    for (size_t i = 0; i < steps.size(); ++i) times.steps[i].rounds.push_back({steps[i]});
  }
  for (auto* row : {&times.forward, &times.backward, &times.both, &times.product}) summarize(*row);
  for (auto& row : times.steps) summarize(row);
  return times;
}

std::string format_recurrence(const RecurrencePlan& plan, const RecurrenceTimes& times) {
  // A complex multiplication and addition are eight operations.
  const auto units = static_cast<double>(plan.hidden);
  const double flop = 8.0 * static_cast<double>(plan.length * plan.batch) * units * units;
  const double product_flop = 8.0 * kProductSize * kProductSize * kProductSize;
  base::Table table({"part", "ms", "least", "GFLOP/s", "of a large complex product", "of the iteration"});
  const auto add_pass = [&](const char* title, const Row& row, double work) {
    const double of_product = work / product_flop / ratio_in_rounds(row, times.product);
    table.add({title, fmt::format("{:.2f}", row.median_ms), fmt::format("{:.2f}", row.least_ms),
               fmt::format("{:.1f}", work / row.median_ms * 1e-6), fmt::format("{:.0f} %", 100 * of_product),
               ""});
  };
  add_pass("forward", times.forward, flop);
  add_pass("backward", times.backward, 2 * flop);
  add_pass("both", times.both, 3 * flop);
  add_pass("1024³ complex product", times.product, product_flop);
  for (const auto& row : times.steps) {
    const double of_passes = ratio_in_rounds(row, times.both);
    table.add({row.method, fmt::format("{:.2f}", row.median_ms), fmt::format("{:.2f}", row.least_ms), "", "",
               fmt::format("{:.2f} %", 100 * of_passes / (1 + of_passes))});
  }
  std::ostringstream text;
  table.print(text);
  return text.str();
}

}  // namespace stiefel::bench
