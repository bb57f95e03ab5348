#include "unitariness.h"

#include <fmt/format.h>
#include <stiefel/cayley.h>
#include <stiefel/manifold.h>
#include <stiefel/optim/cayley_sgd.h>
#include <stiefel/optim/retraction_sgd.h>
#include <torch/optim/rmsprop.h>
#include <torch/utils.h>

#include <algorithm>

#include "base/names.h"
#include "base/stopwatch.h"
#include "data/seeds.h"
#include "train/device.h"
#include "train/network.h"
#include "train/tasks/task.h"

namespace stiefel::paper {

namespace {

/// W = Ŵ − Ŵᴴ with Ŵ = MXᴴ − ½X(XᴴMXᴴ), dense. The library's stiefel::generator rounds in another order, on
/// which the figures of the table depend.
at::Tensor dense_generator(const at::Tensor& x, const at::Tensor& m) {
  const auto xh = x.mH();
  const auto half = at::mm(m, xh) - 0.5 * at::mm(x, at::mm(xh, at::mm(m, xh)));
  return half - half.mH();
}

double complex_norm(const at::Tensor& w) {
  return at::linalg_vector_norm(at::view_as_real(w.resolve_conj()), 2).item<double>();
}

/// One step of Algorithm 1 on a square K with the start that the released code has, dense:
///     M ← βM − G,  α = min(l, 2q/(‖W‖_F + ε)),  Y⁰ = X + αM,  Yⁱ = X + (α/2)W(X + Yⁱ⁻¹),  X ← Yˢ,  M ← WX.
/// Returns α‖W‖_F.
double released_step_(at::Tensor& x, at::Tensor& m, const at::Tensor& g, double rate, double beta,
                      int64_t rounds) {
  m = beta * m - g;
  const auto w = dense_generator(x, m);
  const double norm = complex_norm(w);
  const double alpha = std::min(rate, 1 / (norm + 1e-8));
  auto y = x + alpha * m;
  for (int64_t i = 0; i < rounds; ++i) y = x + (alpha / 2) * at::mm(w, x + y);
  m = at::mm(w, x);
  x.copy_(y);
  return alpha * norm;
}

/// The unitary matrix under one cell's method.
class Mover {
 public:
  Mover(const UnitarinessCell& cell, const at::Tensor& k, const record::Config& config)
      : cell_(cell),
        k_(k),
        rate_(*config.lr_manifold),
        beta_(config.momentum.value_or(kUnitarinessMomentum)) {
    const std::vector<at::Tensor> weights{k};
    if (cell.form == CayleyForm::kReleased) {
      m_ = at::zeros_like(k.detach());
      return;
    }
    if (cell.form == CayleyForm::kPrinted && cell.closed) {
      // Y = (I − (l/2)W)⁻¹(I + (l/2)W)X, solved for the point and not for the way to it, so that the whole of
      // the point is rounded again each time.
      using Closed = RetractionSGD<CayleyClosed>;
      optimizer_ = std::make_unique<Closed>(weights, Closed::Options(rate_).momentum(beta_));
      return;
    }
    const auto options = CayleySGDOptions(rate_)
                             .momentum(beta_)
                             .iterations(cell.rounds)
                             .exact(cell.closed)
                             .polish(cell.form == CayleyForm::kPolished);
    optimizer_ = std::make_unique<CayleySGD>(weights, options);
  }

  /// One step along K's gradient; returns α‖W‖_F.
  double step() {
    const at::NoGradGuard no_grad;
    auto x = k_.detach();
    if (!optimizer_) return released_step_(x, m_, k_.grad(), rate_, beta_, cell_.rounds);
    const auto before = x.clone();
    optimizer_->step();
    const auto& state = static_cast<const MomentumParamState&>(*optimizer_->state().begin()->second);
    const double norm = generator_norm(before, state.momentum_buffer, Norm::kFrobenius).item<double>();
    return cell_.closed ? rate_ * norm : std::min(rate_, 1 / (norm + 1e-8)) * norm;
  }

 private:
  UnitarinessCell cell_;
  at::Tensor k_;
  double rate_;
  double beta_;
  at::Tensor m_;
  std::unique_ptr<ManifoldOptimizer> optimizer_;
};

}  // namespace

std::string to_string(CayleyForm form) {
  constexpr base::Names<CayleyForm, 3> kTitles{{{CayleyForm::kPrinted, "as printed"},
                                                {CayleyForm::kReleased, "Y⁰ from the unprojected momentum"},
                                                {CayleyForm::kPolished, "polished"}}};
  return base::name_of(kTitles, form);
}

std::string short_name(CayleyForm form) {
  constexpr base::Names<CayleyForm, 3> kShortNames{{{CayleyForm::kPrinted, "printed"},
                                                    {CayleyForm::kReleased, "released"},
                                                    {CayleyForm::kPolished, "polished"}}};
  return base::name_of(kShortNames, form);
}

std::vector<UnitarinessCell> unitariness_cells() {
  std::vector<UnitarinessCell> cells;
  for (const auto form : {CayleyForm::kPrinted, CayleyForm::kReleased, CayleyForm::kPolished}) {
    for (int64_t s = 0; s <= 4; ++s) {
      UnitarinessCell cell;
      cell.form = form;
      cell.rounds = s;
      cells.push_back(cell);
    }
    if (form == CayleyForm::kReleased) continue;
    UnitarinessCell closed;
    closed.form = form;
    closed.closed = true;
    cells.push_back(closed);
  }
  return cells;
}

void measure_unitariness(const record::Config& config, int64_t iterations,
                         std::vector<UnitarinessCell>& cells,
                         const std::function<void(const std::string&)>& progress) {
  const auto device = train::choose_device(config.device);
  const auto task = train::make_task(config, device);
  for (auto& cell : cells) {
    const auto name = cell.closed ? std::string("closed form") : fmt::format("s = {}", cell.rounds);
    const base::Stopwatch stopwatch;
    torch::manual_seed(data::mix(static_cast<uint64_t>(config.seed), 0, 0, data::Purpose::kInitialization));
    const auto network = train::make_network(config);
    network->to(device);
    const auto split = network->split();
    const auto& k = split.manifold.at(0);
    Mover mover(cell, k, config);
    torch::optim::RMSprop rest(split.euclidean, torch::optim::RMSpropOptions(*config.lr).alpha(0.9));
    const int64_t tail = std::max<int64_t>(1, iterations / 10);
    double losses = 0;
    for (int64_t i = 0; i < iterations; ++i) {
      progress(fmt::format("{}, {}: {} of {}", to_string(cell.form), name, i + 1, iterations));
      const auto batch = task->batch(i / task->steps_per_epoch(), i % task->steps_per_epoch());
      network->zero_grad();
      const auto loss = task->loss(network->forward(batch.inputs), batch.targets);
      loss.backward();
      cell.turn += mover.step() / static_cast<double>(iterations);
      rest.step();
      cell.last = defect(k).item<double>();
      cell.mean += cell.last / static_cast<double>(iterations);
      if (i >= iterations - tail) losses += loss.item<double>();
    }
    cell.loss = losses / static_cast<double>(tail);
    cell.seconds = stopwatch.seconds();
  }
}

}  // namespace stiefel::paper
