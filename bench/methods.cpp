#include "methods.h"

#include <algorithm>
#include <utility>

#include "dense_step.h"
#include "noise.h"
#include "optimizer_run.h"

namespace stiefel::bench {

namespace {

/// The paper's form with the n×n matrix, weight by weight.
class DenseRun : public Run {
 public:
  explicit DenseRun(const Workload& workload) {
    for (const auto& layer : workload.layers) {
      const auto& start = start_of(layer);
      const auto stack = start.point.view({-1, layer.p(), layer.n()});
      for (int64_t i = 0; i < layer.count; ++i) {
        pieces_.push_back(
            {stack.clone(), Noise::shared().draw(stack.sizes()) * kGrowth, {}, start.rate(kGrowth)});
      }
    }
  }

  double step() override {
    const at::NoGradGuard no_grad;
    for (auto& piece : pieces_) piece.g = Noise::shared().draw(piece.x.sizes());
    return seconds_of([this] {
      for (auto& piece : pieces_) dense_step_(piece.x, piece.m, piece.g, piece.rate, kMomentum);
    });
  }

  double defect() const override {
    double worst = 0;
    for (const auto& piece : pieces_) worst = std::max(worst, worst_defect(piece.x, true));
    return worst;
  }

 private:
  struct Piece {
    at::Tensor x;  // (B, p, n)
    at::Tensor m;
    at::Tensor g;
    double rate;
  };
  std::vector<Piece> pieces_;
};

/// A slow method on a whole network: one matrix a shape, its time multiplied by their number.
class SampledRun : public Run {
 public:
  template <class Begin>
  SampledRun(const Workload& workload, Begin begin) {
    for (auto layer : workload.layers) {
      const auto count = static_cast<double>(layer.count);
      layer.count = 1;
      samples_.push_back({begin(Workload{workload.name, workload.title, {layer}}), count});
    }
  }

  double step() override {
    double total = 0;
    for (auto& sample : samples_) total += sample.count * sample.run->step();
    return total;
  }

  double defect() const override {
    double worst = 0;
    for (const auto& sample : samples_) worst = std::max(worst, sample.run->defect());
    return worst;
  }

 private:
  struct Sample {
    std::unique_ptr<Run> run;
    double count;
  };
  std::vector<Sample> samples_;
};

template <class Retraction>
std::unique_ptr<Run> one_a_shape(const Workload& workload) {
  return std::make_unique<SampledRun>(
      workload, [](const Workload& one) { return retraction_run<Retraction>(one, at::kCPU, 0); });
}

/// One of ours, its products counted.
template <class Begin>
Method ours(std::string name, std::string title, Begin begin) {
  return {std::move(name),
          std::move(title),
          true,
          true,
          false,
          [begin = std::move(begin)](const Workload& workload) -> std::unique_ptr<Run> {
            auto run = begin(workload);
            run->count();
            return run;
          }};
}

Method cayley_sgd(std::string name, std::string title, const std::function<void(CayleySGDOptions&)>& choose) {
  return ours(std::move(name), std::move(title),
              [choose](const Workload& workload) { return cayley_sgd_run(workload, at::kCPU, choose); });
}

/// A retraction without momentum, as in the paper's Table 3.
template <class Retraction>
Method bare(std::string name, std::string title, bool slow) {
  return {std::move(name), std::move(title), false, true, slow, [slow](const Workload& workload) {
            return slow && workload.large ? one_a_shape<Retraction>(workload)
                                          : retraction_run<Retraction>(workload, at::kCPU, 0);
          }};
}

}  // namespace

std::vector<Method> methods(bool quick) {
  std::vector<Method> all{
      cayley_sgd("ours", "ours, s = 2", [](CayleySGDOptions&) {}),
      cayley_sgd("ours-s5", "ours, s = 5", [](CayleySGDOptions& options) { options.iterations(5); }),
      cayley_sgd("ours-exact", "ours, exact", [](CayleySGDOptions& options) { options.exact(true); }),
      cayley_sgd("ours-no-polish", "ours, polish(false)",
                 [](CayleySGDOptions& options) { options.polish(false); }),
      ours("ours-adam", "ours, Cayley ADAM",
           [](const Workload& workload) { return cayley_adam_run(workload, at::kCPU); }),
      {"dense", "dense, s = 2", false, true, false,
       [](const Workload& workload) -> std::unique_ptr<Run> { return std::make_unique<DenseRun>(workload); }},
      bare<Qr>("qr", "QR", false),
      bare<Polar>("polar", "polar (SVD)", true),
      bare<CayleyClosed>("closed-form", "closed form, n×n", true),
      {"sgd", "SGD, no constraint", false, false, false,
       [](const Workload& workload) { return sgd_run(workload, at::kCPU); }},
  };
  if (quick)
    all.erase(std::remove_if(all.begin(), all.end(), [](const Method& m) { return m.slow; }), all.end());
  return all;
}

}  // namespace stiefel::bench
