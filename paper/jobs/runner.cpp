#include "runner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/files.h"
#include "base/folder_lock.h"
#include "base/interrupt.h"
#include "base/printable.h"
#include "base/stopwatch.h"
#include "data/catalog.h"
#include "data/places.h"
#include "record/checkpoint.h"
#include "record/new_run_facts.h"
#include "record/run_facts.h"
#include "record/run_folder.h"
#include "record/system.h"
#include "smoke_data.h"
#include "train/checkpoint_content.h"
#include "train/device.h"
#include "train/message.h"
#include "train/resolve_config.h"
#include "train/trainer.h"

namespace stiefel::paper {

namespace fs = std::filesystem;

namespace {

/// Thrown out of a measurement when a signal has come.
struct Stopped {
  int signal;
};

/// Takes the folder of a run, so that commands side by side do not both work on it. Empty where another has
/// it.
std::optional<base::FolderLock> take_folder(const Job& job) {
  std::error_code error;
  fs::create_directories(job.folder, error);
  if (error) {
    throw std::runtime_error(
        fmt::format("{}: cannot be made: {}", base::printable(job.folder), error.message()));
  }
  return base::FolderLock::try_take(job.folder);
}

/// What became of a job since the plan was made: another command may have worked on it.
void look_again(Job& job) {
  const auto record = read_run_record(job.folder);
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
  if (job.state == Job::State::kInterrupted || record::is_unused(job.folder)) return;
  const auto config = job.folder / "config.toml";
  std::vector<std::string> different{"not a run of this experiment"};
  if (fs::exists(config)) {
    auto there = record::config_from_toml(base::read_file(config), config.string());
    train::resolve(there);
    different = differences_that_matter(there, job.spec.config);
    if (different.empty()) return;  // it was stopped before its first word in run.json
  }
  throw std::runtime_error(fmt::format("{} is of another recipe ({}); move it away or choose another --out",
                                       base::printable(job.folder), fmt::join(different, ", ")));
}

int train_one(const Job& job, const record::Config& config, const std::vector<std::string>& command,
              const std::function<void(const std::string&)>& say) {
  std::string complaint;
  const auto loaded = record::Checkpoints(job.folder).newest(complaint, train::check_content);
  if (!complaint.empty()) say(complaint);
  if (loaded) {
    auto stored = record::config_from_toml(loaded->config, loaded->path.string());
    const auto different = differences_that_matter(stored, config);
    if (!different.empty()) {
      throw std::runtime_error(fmt::format("{} was written with another config ({}); move {} away",
                                           base::printable(loaded->path), fmt::join(different, ", "),
                                           base::printable(job.folder)));
    }
  }
  train::Trainer trainer(config, job.folder, command);
  if (loaded) {
    trainer.resume(*loaded);
    say(fmt::format("going on from epoch {}, step {}", loaded->state.epoch + 1, loaded->state.step));
  } else if (job.state == Job::State::kInterrupted) {
    say("no checkpoint to go on from: starting from the beginning");
  }
  return trainer.run().signal;
}

int measure_one(const Job& job, const record::Config& config, const std::vector<std::string>& command) {
  const auto& part = *job.spec.unitariness;
  UnitarinessCell cell;
  cell.form = part.form;
  cell.rounds = part.rounds;
  cell.closed = part.closed;
  std::vector<UnitarinessCell> cells{cell};
  const auto started = record::timestamp();
  try {
    measure_unitariness(config, part.iterations, cells, [](const std::string&) {
      if (const int signal = base::InterruptGuard::signal(); signal != 0) throw Stopped{signal};
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
  const auto device = train::choose_device(config.device);
  auto facts = record::new_run_facts(job.folder, command, started, config, device);
  facts.update(
      {{"status", "finished"}, {"seconds", cells[0].seconds}, {"precision", "fp32"}, {"unitariness", found}});
  base::write_file(job.folder / "config.toml", record::to_toml(config));
  record::write_run_facts(job.folder, facts);
  return 0;
}

/// The config as it is run here: what a device and a scale ask for.
record::Config config_here(const Job& job, const fs::path& out, Scale scale) {
  auto config = job.spec.config;
  if (scale == Scale::kSmoke && config.needs_data()) {
    const auto little = out / to_string(scale) / "data";
    provide_smoke_data(config.data, config.data_dir, little);
    config.data_dir = little.string();
  }
  return config;
}

/// A run that was timed from its beginning tells how long others of its network may take: those of which
/// nothing is known as long, those that were guessed at longer or shorter than guessed as this one was.
void learn_time(std::vector<Job>& jobs, const Job& timed, double seconds) {
  for (auto& other : jobs) {
    if (other.state != Job::State::kMissing || other.spec.config.model != timed.spec.config.model) continue;
    if (!other.seconds) {
      other.seconds = seconds;
    } else if (other.rough && timed.seconds.value_or(0) > 0) {
      *other.seconds *= seconds / *timed.seconds;
    } else {
      continue;
    }
    other.rough = false;
  }
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

Outcome run_jobs(std::vector<Job>& jobs, int64_t at_once, const fs::path& out, Scale scale,
                 const std::vector<std::string>& command,
                 const std::function<void(const std::string&)>& say) {
  const base::InterruptGuard interrupts;
  Outcome outcome;
  int64_t number = 0;
  for (auto& job : jobs) {
    if (outcome.signal = base::InterruptGuard::signal(); outcome.signal != 0) return outcome;
    ++number;
    if (job.state == Job::State::kDone) continue;
    const auto title = fmt::format("run {} of {}: {}", number, jobs.size(), job.spec.name);
    try {
      const auto lock = take_folder(job);
      if (!lock) {
        say(title + " is being run by another command");
        continue;
      }
      look_again(job);
      if (job.state == Job::State::kDone) continue;
      look_around(jobs);
      say(fmt::format("{} ({}); {}", title, to_string(scale), to_string(time_left(jobs, at_once))));
      check_folder(job);
      const auto config = config_here(job, out, scale);
      const base::Stopwatch stopwatch;
      outcome.signal =
          job.spec.unitariness ? measure_one(job, config, command) : train_one(job, config, command, say);
      if (outcome.signal != 0) return outcome;
      if (std::exchange(job.state, Job::State::kDone) == Job::State::kMissing)
        learn_time(jobs, job, stopwatch.seconds());
    } catch (const std::invalid_argument&) {
      throw;  // what was asked for is wrong, and would be for the others
    } catch (const std::exception& error) {
      say(fmt::format("{} failed: {}", title, train::message_of(error)));
      outcome.failed.push_back(job.spec.name);
    }
  }
  return outcome;
}

}  // namespace stiefel::paper
