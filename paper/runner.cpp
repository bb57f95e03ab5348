#include "runner.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <set>
#include <stdexcept>

#include "data/catalogue.h"
#include "data/places.h"
#include "files/files.h"
#include "files/folder_lock.h"
#include "smoke_data.h"
#include "train/checkpoint.h"
#include "train/device.h"
#include "train/display.h"
#include "train/interrupt.h"
#include "train/system.h"
#include "train/trainer.h"

namespace stiefel::paper {

namespace fs = std::filesystem;

namespace {

/// Checkpoints of a run on a GPU at most: its epochs are short, and writing one is not.
constexpr int64_t kCheckpoints = 20;

/// Thrown out of a measurement when a signal has come.
struct Stopped {
  int signal;
};

/// Takes the folder of a run, so that commands side by side do not both work on it. Empty where another has
/// it.
std::optional<files::FolderLock> take_folder(const Job& job) {
  std::error_code error;
  fs::create_directories(job.folder, error);
  if (error) {
    throw std::runtime_error(fmt::format("{}: cannot be made: {}", job.folder.string(), error.message()));
  }
  return files::FolderLock::try_take(job.folder);
}

/// What became of a job since the plan was made: another command may have worked on it.
void look_again(Job& job) {
  const auto record = read_run(job.folder);
  if (!record || !matches(*record, job.spec)) return;
  job.state = record->finished() ? Job::State::kDone : Job::State::kInterrupted;
}

/// The same for all, so that the time left counts what others have done. A folder that cannot be read says so
/// when its turn comes, and stops no other.
void look_around(std::vector<Job>& jobs) {
  for (auto& job : jobs) {
    try {
      if (job.state != Job::State::kDone) look_again(job);
    } catch (const std::exception&) {
    }
  }
}

/// A folder of that name must be new, or of this very run.
void check_folder(const Job& job) {
  if (job.state == Job::State::kInterrupted || fs::is_empty(job.folder)) return;
  const auto config = job.folder / "config.toml";
  std::vector<std::string> different{"not a run of this experiment"};
  if (fs::exists(config)) {
    auto there = train::config_from_toml(files::read(config), config.string());
    there.resolve();
    different = differences_that_matter(there, job.spec.config);
    if (different.empty()) return;  // it was stopped before its first word in run.json
  }
  throw std::runtime_error(fmt::format("{} is of another recipe ({}); move it away or choose another --out",
                                       job.folder.string(), fmt::join(different, ", ")));
}

int train_one(const Job& job, const train::Config& config, const std::vector<std::string>& command,
              const std::function<void(const std::string&)>& say) {
  std::string complaint;
  const auto loaded = train::Checkpoints(job.folder).newest(complaint);
  if (!complaint.empty()) say(complaint);
  if (loaded) {
    auto stored = train::config_from_toml(loaded->config, loaded->path.string());
    const auto different = differences_that_matter(stored, config);
    if (!different.empty()) {
      throw std::runtime_error(fmt::format("{} was written with another config ({}); move {} away",
                                           loaded->path.string(), fmt::join(different, ", "),
                                           job.folder.string()));
    }
  }
  train::Trainer trainer(config, job.folder, command);
  if (loaded) {
    trainer.resume(*loaded);
    say(fmt::format("going on from epoch {}, step {}", loaded->progress.epoch + 1, loaded->progress.step));
  }
  return trainer.run().signal;
}

int measure_one(const Job& job, const train::Config& config, const std::vector<std::string>& command) {
  const auto& part = *job.spec.unitariness;
  train::UnitarinessCell cell;
  cell.form = part.form;
  cell.rounds = part.rounds;
  cell.closed = part.closed;
  std::vector<train::UnitarinessCell> cells{cell};
  const auto started = train::timestamp();
  try {
    train::measure_unitariness(config, part.iterations, cells, [](const std::string&) {
      if (const int signal = train::InterruptGuard::signal(); signal != 0) throw Stopped{signal};
    });
  } catch (const Stopped& stopped) {
    return stopped.signal;
  }
  auto found = describe(part);
  const auto finite = [](double value) {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
  };
  found["mean"] = finite(cells[0].mean);
  found["last"] = finite(cells[0].last);
  found["turn"] = finite(cells[0].turn);
  found["loss"] = finite(cells[0].loss);
  const nlohmann::json record{{"name", job.folder.filename().string()},
                              {"command", command},
                              {"commit", train::commit()},
                              {"status", "finished"},
                              {"started", started},
                              {"seconds", cells[0].seconds},
                              {"seed", config.seed},
                              {"task", config.task},
                              {"data", config.task_name()},
                              {"model", config.model},
                              {"optim", config.method_name()},
                              {"device", train::choose_device(config.device).str()},
                              {"precision", "fp32"},
                              {"threads", at::get_num_threads()},
                              {"hardware", train::hardware_facts()},
                              {"versions", train::version_facts()},
                              {"unitariness", found}};
  files::write(job.folder / "config.toml", train::to_toml(config));
  files::write(job.folder / "run.json", record.dump(2) + "\n");
  return 0;
}

}  // namespace

void check_data(const std::vector<Job>& jobs) {
  std::set<std::string> checked;
  for (const auto& job : jobs) {
    const auto& config = job.spec.config;
    if (job.state == Job::State::kDone || !config.needs_data() || !checked.insert(config.data).second)
      continue;
    data::locate(data::facts_of(config.data), config.data_dir);
  }
}

int run_jobs(std::vector<Job>& jobs, const fs::path& out, Scale scale,
             const std::vector<std::string>& command, const std::function<void(const std::string&)>& say) {
  const train::InterruptGuard interrupts;
  int64_t number = 0;
  for (auto& job : jobs) {
    if (const int signal = train::InterruptGuard::signal(); signal != 0) return signal;
    ++number;
    if (job.state == Job::State::kDone) continue;
    const auto lock = take_folder(job);
    if (!lock) {
      say(fmt::format("run {} of {}: {} is being run by another command", number, jobs.size(),
                      job.spec.name));
      continue;
    }
    look_again(job);
    if (job.state == Job::State::kDone) continue;
    look_around(jobs);
    say(fmt::format("run {} of {}: {} ({}); {}", number, jobs.size(), job.spec.name, to_string(scale),
                    to_string(time_left(jobs))));
    check_folder(job);
    auto config = job.spec.config;
    if (train::choose_device(config.device).is_cuda()) {
      config.checkpoint_every = std::max<int64_t>(1, config.epochs / kCheckpoints);
    }
    if (scale == Scale::kSmoke && config.needs_data()) {
      const auto little = out / to_string(scale) / "data";
      provide_smoke_data(config.data, config.data_dir, little);
      config.data_dir = little.string();
    }
    const auto start = std::chrono::steady_clock::now();
    const int signal =
        job.spec.unitariness ? measure_one(job, config, command) : train_one(job, config, command, say);
    if (signal != 0) return signal;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const bool whole = job.state == Job::State::kMissing;
    job.state = Job::State::kDone;
    // The first run of a network tells how long the others may take.
    for (auto& other : jobs) {
      if (whole && other.state == Job::State::kMissing && (!other.seconds || other.rough) &&
          other.spec.config.model == config.model) {
        other.seconds = seconds;
        other.rough = false;
      }
    }
  }
  return 0;
}

}  // namespace stiefel::paper
