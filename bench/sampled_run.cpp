#include "sampled_run.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace stiefel::bench {

namespace {

class SampledRun : public Run {
 public:
  SampledRun(const Workload& workload, const std::function<std::unique_ptr<Run>(const Workload&)>& begin) {
    for (auto layer : workload.layers) {
      const auto count = static_cast<double>(std::exchange(layer.count, 1));
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

}  // namespace

std::unique_ptr<Run> sampled_run(const Workload& workload,
                                 const std::function<std::unique_ptr<Run>(const Workload&)>& begin) {
  return std::make_unique<SampledRun>(workload, begin);
}

}  // namespace stiefel::bench
