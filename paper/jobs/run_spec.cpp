#include "run_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "data/places.h"
#include "record/config.h"
#include "train/resolve_config.h"
#include "train/tasks/task.h"

namespace stiefel::paper {

namespace {

constexpr int64_t kShortDivisor = 10;
constexpr int64_t kSmokeIterations = 2;
constexpr int64_t kSmokeValidation = 256;

/// EPOCH:WEIGHT,… with every epoch divided; those that fall together keep the last.
std::string shorten_schedule(const std::string& schedule) {
  std::string result;
  double last = -1;
  std::istringstream parts(schedule);
  for (std::string part; std::getline(parts, part, ',');) {
    const auto colon = part.find(':');
    const double epoch = std::round(std::stod(part.substr(0, colon)) / static_cast<double>(kShortDivisor));
    if (epoch == last) result.erase(result.rfind(',') == std::string::npos ? 0 : result.rfind(','));
    result += fmt::format("{}{}{}", result.empty() ? "" : ",", epoch, part.substr(colon));
    last = epoch;
  }
  return result;
}

/// The recipe's data set where it is present, else one that is and that its network can read.
std::string stand_in_data(const record::Config& config, const std::string& data_dir) {
  const bool gray = train::is_sequence_task(config.task);
  const auto is_complete = [](const data::Found& place) { return place.complete(); };
  const auto present = [&](const data::SetFacts& facts) {
    const auto found = data::find(facts, data_dir);
    return std::any_of(found.begin(), found.end(), is_complete);
  };
  if (present(data::facts_of(config.data))) return config.data;
  // Half a set in a folder that the user named is that run's error, not a reason to take another set.
  if (!data::named_folder(data_dir).empty() && !data::find(data::facts_of(config.data), data_dir).empty())
    return config.data;
  for (const auto& facts : data::catalog()) {
    if ((!gray || facts.channels() == 1) && present(facts)) return facts.name;
  }
  return config.data;  // the run will say what is missing and how to get it
}

std::string unitariness_name(const UnitarinessPart& part) {
  const auto form = short_name(part.form);
  return part.closed ? fmt::format("{}-closed", form) : fmt::format("{}-s{}", form, part.rounds);
}

}  // namespace

nlohmann::json describe(const UnitarinessPart& part) {
  nlohmann::json description{{"form", to_string(part.form)},
                             {"rounds", part.closed ? nlohmann::json() : nlohmann::json(part.rounds)},
                             {"closed", part.closed},
                             {"iterations", part.iterations}};
  // Early records solved for the increment here too and do not say so: they must not pass for this one.
  if (part.closed && part.form == CayleyForm::kPrinted) description["solves"] = "point";
  return description;
}

RunSpec run_spec(const Recipe& recipe, Scale scale, int64_t seed, const RunEnvironment& environment) {
  RunSpec spec{"", recipe.config, recipe.unitariness};
  auto& config = spec.config;
  config.seed = seed;
  if (scale == Scale::kShort) {
    config.epochs = std::max<int64_t>(1, config.epochs / kShortDivisor);
    config.penalty_schedule = shorten_schedule(config.penalty_schedule);
    if (config.patience > 0) config.patience = std::max<int64_t>(1, config.patience / kShortDivisor);
    if (spec.unitariness) {
      spec.unitariness->iterations = std::max<int64_t>(1, spec.unitariness->iterations / kShortDivisor);
    }
  } else if (scale == Scale::kSmoke) {
    const bool sequence = train::is_sequence_task(config.task);
    config.epochs = 1;
    config.penalty_schedule.clear();
    config.patience = 0;
    config.model = sequence ? "urnn-16" : "small";
    config.data = stand_in_data(config, environment.data_dir);
    if (sequence) config.validation = kSmokeValidation;
    if (spec.unitariness) spec.unitariness->iterations = kSmokeIterations;
  }
  config.device = environment.device;
  config.threads = environment.threads;
  config.data_dir = environment.data_dir;
  config.precision = environment.precision;
  // What cannot be computed in bfloat16 is computed in the device's usual precision beside the others.
  const bool needs_more =
      train::is_sequence_task(config.task) || config.is_parametrized() || config.normalization != "batch";
  if (config.precision == "bf16" && needs_more) config.precision = "auto";
  train::resolve(config);
  spec.name = spec.unitariness
                  ? fmt::format("unitariness-{}-{}-{}-{}", config.task_name(), config.model,
                                unitariness_name(*spec.unitariness), seed)
                  : fmt::format("{}-{}-{}-{}", config.task_name(), config.model, config.method_name(), seed);
  return spec;
}

std::vector<std::string> differences_that_matter(const record::Config& a, const record::Config& b) {
  auto other = b;
  record::copy_result_neutral_options(other, a);
  other.device = a.device;
  other.precision = a.precision;
  other.step_precision = a.step_precision;
  other.channels_last = a.channels_last;
  return record::differences(a, other);
}

}  // namespace stiefel::paper
