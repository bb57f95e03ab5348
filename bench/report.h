#pragma once

#include <benchmark/benchmark.h>

#include <functional>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gemm.h"
#include "methods.h"
#include "workloads.h"

namespace stiefel::bench {

/// Collects the runs and prints them as tables of medians, one a workload. Passes them on to a reporter of
/// Google Benchmark's where one was asked for.
class Report : public benchmark::BenchmarkReporter {
 public:
  /// `forward` may be null.
  Report(std::vector<Workload> workloads, std::vector<Method> methods, std::vector<Gemm> gemms,
         std::unique_ptr<benchmark::BenchmarkReporter> forward);

  bool ReportContext(const Context& context) override;
  void ReportRuns(const std::vector<Run>& runs) override;
  void Finalize() override;

  bool empty() const { return cases_.empty(); }
  void print(std::ostream& out) const;

 private:
  /// What the repetitions of one case showed.
  struct Case {
    std::vector<double> milliseconds;
    std::map<std::string, double> counters;  // of the last repetition
    std::string label;

    double median() const;
    double least() const;
  };

  const Case* find(const std::string& group, const std::string& name) const;
  double gemm_rate(const Gemm& gemm) const;
  void print_gemm(std::ostream& out) const;
  void print_workload(std::ostream& out, const Workload& workload) const;
  void print_summary(std::ostream& out) const;

  std::vector<Workload> workloads_;
  std::vector<Method> methods_;
  std::vector<Gemm> gemms_;
  std::unique_ptr<benchmark::BenchmarkReporter> forward_;
  std::map<std::string, Case> cases_;
};

}  // namespace stiefel::bench
