#include "plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/format_number.h"
#include "base/statistics.h"
#include "cell_values.h"
#include "train/device.h"

namespace stiefel::paper {

namespace {

/// How long a step takes beside others, for the order alone: milliseconds on one H200 with SGD
/// (docs/performance.md), and large for what is not listed.
double relative_cost(const record::Config& config) {
  const std::pair<const char*, double> known[] = {
      {"small", 0.5},    {"urnn-16", 1},    {"vgg-13", 2},       {"vgg-16", 2.5},  {"vgg-19", 3.1},
      {"wrn-16-4", 3.4}, {"wrn-52-1", 6.1}, {"wrn-28-10", 26.3}, {"urnn-116", 67}, {"urnn-512", 83}};
  double cost = 1000;
  for (const auto& [model, milliseconds] : known) {
    if (config.model == model) cost = milliseconds;
  }
  // The n×n solve and the decompositions wait for one another on any device.
  if (config.optim == "cayley-closed") return 8 * cost;
  if (config.optim == "polar" || config.weights == "omdsm" || config.normalization == "dbn") return 4 * cost;
  return cost;
}

/// What is left of a job by the times of finished runs: of the same network and method where there are any,
/// else of the same network.
void estimate(Job& job, const std::vector<RunRecord>& finished, bool cuda) {
  std::vector<double> same_method;
  std::vector<double> same_network;
  const auto& config = job.spec.config;
  for (const auto& run : finished) {
    if (run.config.model != config.model || run.config.task != config.task) continue;
    if ((run.device().rfind("cuda", 0) == 0) != cuda) continue;  // another machine's, which tells nothing
    if (run.facts.contains("unitariness") != job.spec.unitariness.has_value()) continue;
    double units = epoch_seconds(run);
    if (job.spec.unitariness) {
      const auto& part = run.facts["unitariness"];
      units = run.facts.value("seconds", 0.0) / part.value("iterations", 1.0);
    }
    same_network.push_back(units);
    if (run.config.method_name() == config.method_name()) same_method.push_back(units);
  }
  if (same_network.empty()) return;
  const bool exact = !same_method.empty();
  const double unit = base::median(exact ? same_method : same_network);
  job.seconds = unit * (job.spec.unitariness ? static_cast<double>(job.spec.unitariness->iterations)
                                             : epochs_left(job));
  job.basis = exact ? fmt::format("{} with {}", config.model, config.method_name())
                    : fmt::format("{} with other methods", config.model);
}

}  // namespace

double epochs_left(const Job& job) {
  auto left = static_cast<double>(job.spec.config.epochs);
  if (job.state == Job::State::kInterrupted) {
    if (const auto run = read_run_record(job.folder)) left -= static_cast<double>(run->epochs.size());
  }
  return std::max(0.0, left);
}

std::vector<Job> make_plan(const std::vector<Cell>& cells, int64_t seeds, Scale scale,
                           const RunEnvironment& environment, const std::filesystem::path& out) {
  const bool cuda = train::choose_device(environment.device).is_cuda();
  std::vector<RunRecord> finished;
  for (const auto any : scales()) {
    const RunStore runs(out, any);
    for (const auto& record : runs.records()) {
      if (record.finished()) finished.push_back(record);
    }
  }
  const RunStore store(out, scale);
  std::vector<Job> jobs;
  std::set<std::string> seen;
  for (const auto& cell : cells) {
    if (!cell.recipe) continue;
    for (int64_t seed = 1; seed <= seeds; ++seed) {
      Job job;
      job.spec = run_spec(*cell.recipe, scale, seed, environment);
      if (!seen.insert(job.spec.name).second) continue;
      job.folder = store.folder() / job.spec.name;
      if (const auto* record = store.find(job.spec)) {
        job.folder = record->folder;
        job.state = record->finished() ? Job::State::kDone : Job::State::kInterrupted;
      }
      if (job.state != Job::State::kDone) estimate(job, finished, cuda);
      jobs.push_back(std::move(job));
    }
  }
  // Seeds after one another: the whole table with one seed comes before the second.
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    const auto key = [](const Job& job) {
      return std::make_pair(job.spec.config.seed, relative_cost(job.spec.config));
    };
    return key(a) < key(b);
  });
  return jobs;
}

TimeLeft time_left(const std::vector<Job>& jobs, int64_t at_once) {
  TimeLeft left;
  for (const auto& job : jobs) {
    if (job.state == Job::State::kDone) continue;
    job.seconds ? ++left.known : ++left.unknown;
    left.seconds += job.seconds.value_or(0);
  }
  left.seconds /= static_cast<double>(std::clamp<int64_t>(left.known, 1, at_once));
  return left;
}

std::string to_string(const TimeLeft& left) {
  if (left.known + left.unknown == 0) return "nothing is left to run";
  if (left.known == 0) return "time left unknown: no run of these networks is finished";
  const auto known = "about " + base::format_duration(left.seconds) + " left";
  if (left.unknown == 0) return known;
  return fmt::format("{} for {}, unknown for {} of networks without a finished run", known, left.known,
                     left.unknown);
}

}  // namespace stiefel::paper
