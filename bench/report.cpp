#include "report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <utility>

#include "base/table.h"

namespace stiefel::bench {

namespace {

// Google Benchmark 1.8 renamed the member that says so; the second argument prefers the first that compiles.
template <class Run>
auto failed(const Run& run, int) -> decltype(static_cast<bool>(run.error_occurred)) {
  return run.error_occurred;
}
template <class Run>
auto failed(const Run& run, long) -> decltype(static_cast<bool>(run.skipped)) {
  return static_cast<bool>(run.skipped);
}

const char* const kGemmGroup = "gemm";

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : 0.5 * (values[middle - 1] + values[middle]);
}

std::string format(const char* pattern, double value) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, value);
  return buffer;
}

/// Three significant digits or so, without an exponent.
std::string number(double value) {
  return format(value >= 100 ? "%.0f" : value >= 10 ? "%.1f" : value >= 1 ? "%.2f" : "%.3f", value);
}

/// How many times faster than the dense form the step is meant to be; 0 where nothing is asked.
double goal_over_dense(int64_t p, int64_t n) {
  if (n == p) return 1 / 1.5;
  if (n >= 9 * p && p >= 256) return 4.5;
  if (n >= 4 * p && p >= 256) return 2;
  return n >= 2 * p ? 1 : 0;
}

bool uniform(const Workload& workload) { return workload.layers.size() == 1; }

std::string describe(const Workload& workload) {
  std::string text = workload.title;
  if (workload.layers.size() > 1) text += ", " + std::to_string(workload.matrices()) + " convolutions";
  return text + ", " + number(static_cast<double>(workload.weights()) / 1e6) + " M weights";
}

}  // namespace

Report::Report(std::vector<Workload> workloads, std::vector<Method> methods, std::vector<Gemm> gemms,
               std::unique_ptr<benchmark::BenchmarkReporter> forward)
    : workloads_(std::move(workloads)),
      methods_(std::move(methods)),
      gemms_(std::move(gemms)),
      forward_(std::move(forward)) {}

bool Report::ReportContext(const Context& context) {
  return forward_ == nullptr || forward_->ReportContext(context);
}

void Report::ReportRuns(const std::vector<Run>& runs) {
  if (forward_ != nullptr) forward_->ReportRuns(runs);
  for (const auto& run : runs) {
    if (failed(run, 0)) continue;
    // Aggregates are ours to take, except where only they are reported.
    const bool median = run.run_type == Run::RT_Aggregate && run.aggregate_name == "median";
    auto& result = cases_[run.run_name.function_name];
    if (run.run_type == Run::RT_Aggregate && !(median && result.milliseconds.empty())) continue;
    const double unit = benchmark::GetTimeUnitMultiplier(run.time_unit);
    result.milliseconds.push_back(run.GetAdjustedRealTime() / unit * 1e3);
    result.label = run.report_label;
    for (const auto& [name, counter] : run.counters) result.counters[name] = counter.value;
  }
}

void Report::Finalize() {
  if (forward_ != nullptr) forward_->Finalize();
}

double Report::Case::median() const { return median_of(milliseconds); }

double Report::Case::least() const { return *std::min_element(milliseconds.begin(), milliseconds.end()); }

const Report::Case* Report::find(const std::string& group, const std::string& name) const {
  const auto found = cases_.find(group + "/" + name);
  return found == cases_.end() || found->second.milliseconds.empty() ? nullptr : &found->second;
}

double Report::gemm_rate(const Gemm& gemm) const {
  if (const auto* run = find(kGemmGroup, gemm.name)) return gemm.operations() / run->median() * 1e-6;
  // A filter left it out, but the fraction of it is wanted all the same.
  GemmRun run(gemm);
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) seconds.push_back(run.step());
  return gemm.operations() / median_of(seconds) * 1e-9;
}

void Report::print_gemm(std::ostream& out) const {
  out << "\nThe machine's matrix product (at::mm, float), GFLOP/s\n";
  base::Table table({"product", "GFLOP/s"});
  for (const auto& gemm : gemms_) {
    if (&gemm == &gemms_.front() || find(kGemmGroup, gemm.name) != nullptr) {
      table.add({gemm.title, number(gemm_rate(gemm))});
    }
  }
  table.print(out);
}

void Report::print_workload(std::ostream& out, const Workload& workload) const {
  const auto* sgd = find(workload.name, "sgd");
  const auto* ours = find(workload.name, "ours");
  const auto ratio = [](const Case& run, const Case* base) {
    return base == nullptr ? std::string("–") : number(run.median() / base->median());
  };
  const double machine = gemm_rate(gemms_.front());
  base::Table table({"method", "ms", "least", "× SGD", "× ours", "GFLOP/s", "of GEMM", "run", "‖XᵀX−I‖", ""});
  bool any = false;
  for (const auto& method : methods_) {
    const auto* run = find(workload.name, method.name);
    if (run == nullptr) continue;
    any = true;
    const auto counter = [&](const char* name) {
      const auto found = run->counters.find(name);
      return found == run->counters.end() ? 0.0 : found->second;
    };
    const double rate = counter("flop") / run->median() * 1e-6;
    const double executed = counter("flop_executed") / run->median() * 1e-6;
    table.add({method.title, number(run->median()), number(run->least()), ratio(*run, sgd), ratio(*run, ours),
               rate > 0 ? number(rate) : "", rate > 0 ? format("%.0f %%", 100 * rate / machine) : "",
               rate > 0 ? format("%.0f %%", 100 * executed / machine) : "",
               method.on_manifold ? format("%.1e", counter("defect")) : "", run->label});
  }
  if (!any) return;
  out << "\n" << describe(workload) << "\n";
  table.print(out);
}

void Report::print_summary(std::ostream& out) const {
  base::Table table({"ours, s = 2, over dense", "n/p", "times faster", "goal", ""});
  bool any = false;
  for (const auto& workload : workloads_) {
    const auto* ours = find(workload.name, "ours");
    const auto* dense = find(workload.name, "dense");
    if (ours == nullptr || dense == nullptr) continue;
    any = true;
    const double faster = dense->median() / ours->median();
    if (!uniform(workload)) {
      table.add({workload.title, "", number(faster), "", ""});
      continue;
    }
    const int64_t p = workload.layers[0].p();
    const int64_t n = workload.layers[0].n();
    const double goal = goal_over_dense(p, n);
    table.add({workload.title, number(static_cast<double>(n) / static_cast<double>(p)), number(faster),
               goal > 0 ? "≥ " + number(goal) : "", faster < goal ? "missed" : ""});
  }
  if (!any) return;
  out << "\n";
  table.print(out);
}

void Report::print(std::ostream& out) const {
  print_gemm(out);
  for (const auto& workload : workloads_) print_workload(out, workload);
  print_summary(out);
  out << "\n"
         "ms: the median of the repetitions, and the least of them, for all matrices of the workload.\n"
         "Ours, dense and SGD have momentum 0.9 and random gradients; QR, polar and closed form follow the\n"
         "gradient alone, as in the paper's Table 3. The peers step weight by weight.\n"
         "GFLOP/s: 12np² for the thin products and the p×p work that was really done, as counted in a step;\n"
         "a Gram matrix counts as a whole product, a solve with q right sides as ⅔p³ + 2qp². 'of GEMM' is\n"
         "its part of the square product's rate; 'run' counts of a Gram matrix only what was computed.\n"
         "‖XᵀX−I‖: the largest Frobenius norm after the timed steps.\n";
}

}  // namespace stiefel::bench
