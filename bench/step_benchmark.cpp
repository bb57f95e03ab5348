// One optimiser step of the library beside its peers, on the shapes that networks have. See flags.cpp for the
// options, workloads.cpp for what is stepped and methods.cpp for who steps it.

#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/progress_line.h"
#include "flags.h"
#include "gemm.h"
#include "methods.h"
#include "report.h"
#include "threads.h"
#include "workloads.h"

namespace {

using namespace stiefel::bench;

stiefel::base::ProgressLine progress;

/// A step takes the time that it says it took: drawing gradients is not part of it.
void add_case(const std::string& name, bool few, const std::function<void(benchmark::State&)>& body) {
  auto* added = benchmark::RegisterBenchmark(name.c_str(), [name, body](benchmark::State& state) {
    progress.now(name);
    try {
      body(state);
    } catch (const std::exception& error) {
      // LibTorch's message without the addresses that it adds.
      const auto* torch = dynamic_cast<const c10::Error*>(&error);
      const std::string why = torch ? torch->what_without_backtrace() : error.what();
      std::cerr << "\n" << name << " failed: " << why << "\n";
      state.SkipWithError(why.c_str());
    }
  });
  added->UseManualTime()->Unit(benchmark::kMillisecond);
  if (few) added->Repetitions(3);
}

void add_gemm(const Gemm& gemm) {
  const auto run = std::make_shared<std::unique_ptr<GemmRun>>();
  add_case("gemm/" + gemm.name, false, [gemm, run](benchmark::State& state) {
    if (*run == nullptr) *run = std::make_unique<GemmRun>(gemm);
    for (auto _ : state) state.SetIterationTime((*run)->step());
    state.counters["flop"] = gemm.operations();
  });
}

/// The state is made at the first run and carried through all of them, so the defect is that of a long walk.
void add_step(const Workload& workload, const Method& method, bool few) {
  const auto run = std::make_shared<std::unique_ptr<Run>>();
  add_case(workload.name + "/" + method.name, few, [workload, method, run](benchmark::State& state) {
    if (*run == nullptr) *run = method.begin(workload);
    for (auto _ : state) state.SetIterationTime((*run)->step());
    if (method.on_manifold) state.counters["defect"] = (*run)->defect();
    if (method.ours) {
      state.counters["flop"] = (*run)->operations().nominal;
      state.counters["flop_executed"] = (*run)->operations().executed;
    }
    if (method.slow && workload.large) state.SetLabel("one matrix a shape, times their number");
  });
}

/// Whether a case takes seconds, so that three runs must do.
bool takes_long(const Workload& workload, const Method& method) {
  const double n = static_cast<double>(workload.layers[0].n());
  return workload.large || (n >= 2048 && !method.ours && method.on_manifold);
}

int run_all(const Flags& flags) {
  std::vector<std::string> words = flags.rest;
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  int count = static_cast<int>(pointers.size());
  benchmark::Initialize(&count, pointers.data());
  if (benchmark::ReportUnrecognizedArguments(count, pointers.data())) return 1;
  set_threads(flags.threads);
  benchmark::AddCustomContext("threads", std::to_string(at::get_num_threads()));

  const auto all_workloads = workloads(flags.quick);
  const auto all_methods = methods(flags.quick);
  const auto all_gemms = gemms();
  for (const auto& gemm : all_gemms) add_gemm(gemm);
  for (const auto& workload : all_workloads) {
    for (const auto& method : all_methods) {
      add_step(workload, method, !flags.repetitions && takes_long(workload, method));
    }
  }
  std::unique_ptr<benchmark::BenchmarkReporter> forward;
  if (flags.to_stdout) forward.reset(benchmark::CreateDefaultDisplayReporter());
  Report report(all_workloads, all_methods, all_gemms, std::move(forward));
  benchmark::RunSpecifiedBenchmarks(&report);
  if (report.empty()) return 0;  // a list was asked for, or the filter matches nothing, which it says itself
  progress.done();
  auto& out = flags.to_stdout ? std::cerr : std::cout;
  out << at::get_num_threads() << " threads, float, medians of interleaved runs\n";
  report.print(out);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto flags = Flags::parse(argc, argv);
    if (flags.help) {
      std::cout << kUsage;
      return 0;
    }
    return run_all(flags);
  } catch (const std::exception& error) {
    std::cerr << "step_benchmark: " << error.what() << "\n";
    return 1;
  }
}
