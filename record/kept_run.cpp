#include "kept_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/excerpt.h"
#include "base/files.h"
#include "base/json.h"
#include "base/numbers.h"
#include "config.h"
#include "damaged_run.h"

namespace stiefel::record {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kFormatKey = "stiefel_run";
constexpr int64_t kFormat = 1;
constexpr size_t kMostBytes = 16 << 20;
constexpr double kMostEpochs = 100'000;
constexpr double kMostCount = 1e15;  // of steps and images: whole as a double
constexpr size_t kLongestValue = 4096;

// Rounding.

/// How many digits of a number mean something.
struct Precision {
  int significant = 17;  ///< 17: all
  int decimals = -1;     ///< after the point instead; −1: no limit
};

constexpr Precision kAllDigits{};
constexpr Precision kLoss{5};
constexpr Precision kPercent{17, 2};
constexpr Precision kRate{6};  // drops the noise of 0.1 · 0.2³ = 8.000000000000002e-4
constexpr Precision kSeconds{6};
constexpr Precision kDefect{4};
constexpr Precision kMeasured{7};  // where it is the result itself, a number per run

/// Of a metric.
Precision precision_of(const std::string& metric) {
  static const std::map<std::string, Precision> all{
      {"train_loss", kLoss},          {"train_error", kPercent},
      {"validation_error", kPercent}, {"test_loss", kLoss},
      {"test_error", kPercent},       {"rate_manifold", kRate},
      {"rate_euclidean", kRate},      {"seconds", kSeconds},
      {"epoch_seconds", kSeconds},    {"images_per_second", kSeconds},
      {"defect_max", kDefect},        {"defect_mean", kDefect}};
  const auto found = all.find(metric);
  return found == all.end() ? kAllDigits : found->second;
}

/// The shortest JSON of the number with these digits: 0.25, 8.13e-6, null.
std::string write(double value, Precision precision) {
  if (!std::isfinite(value)) return "null";
  std::string text;
  constexpr double kMostWithDecimals = 1e12;
  constexpr double kMostRounded = 1e300;  // or it may become larger than any number
  if (precision.decimals >= 0 && std::abs(value) < kMostWithDecimals) {
    const double scale = std::pow(10, precision.decimals);
    text = fmt::format("{}", std::round(value * scale) / scale);
  } else if (precision.significant >= 17 || std::abs(value) > kMostRounded) {
    text = fmt::format("{}", value);
  } else {
    text = fmt::format("{:.{}g}", value, precision.significant);
  }
  if (text == "-0") return "0";
  // e-06 and e+06 as C writes them.
  if (const auto e = text.find('e'); e != std::string::npos) {
    const bool negative = text[e + 1] == '-';
    const auto digits = text.find_first_not_of("+-0", e + 1);
    text = text.substr(0, e + 1) + (negative ? "-" : "") + text.substr(digits);
  }
  return text;
}

/// The number as the file will have it, NaN for null.
double rounded(double value, Precision precision) {
  return std::isfinite(value) ? base::to_number(write(value, precision)) : EpochMetrics::kMissing;
}

std::string quoted(const std::string& text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

// Facts.

void round_member(json& object, const char* name, Precision precision) {
  const auto found = object.find(name);
  if (found != object.end() && found->is_number_float()) *found = rounded(found->get<double>(), precision);
}

/// The version that the versions' table of a run.json names, which older ones did not name twice.
json version_of(const json& facts) {
  const auto versions = facts.find("versions");
  if (versions == facts.end() || !versions->is_object()) return {};
  return versions->value("stiefel", json());
}

json kept_facts(json facts) {
  facts.erase("name");  // the file's
  if (const auto version = version_of(facts);
      version.is_string() && facts.value("version", json()) == version)
    facts.erase("version");
  round_member(facts, "seconds", kSeconds);
  if (const auto part = facts.find("unitariness"); part != facts.end() && part->is_object()) {
    for (const auto* name : {"last", "loss", "mean", "turn"}) round_member(*part, name, kMeasured);
  }
  return facts;
}

// Settings. A value is a string, a number, true or false, or a list of these.

bool is_json_number(const std::string& text) {
  return !text.empty() && (text[0] == '-' || std::isdigit(static_cast<unsigned char>(text[0])) != 0) &&
         std::isdigit(static_cast<unsigned char>(text.back())) != 0 && json::accept(text);
}

json scalar_of(const std::string& word) {
  if (word == "true" || word == "false") return word == "true";
  return is_json_number(word) ? base::parse_json(word) : json(word);
}

bool is_quoted(const ConfigEntry& entry) { return entry.value().size() != entry.text.size(); }

json value_of(const ConfigEntry& entry) {
  if (is_quoted(entry)) return entry.value();
  const auto values = entry.values();
  const bool is_list = !entry.text.empty() && entry.text.front() == '[';
  if (!is_list && values.size() == 1) return scalar_of(entry.text);
  auto list = json::array();
  for (const auto& value : values) list.push_back(scalar_of(value));
  return list;
}

/// The value as a config file has it. Throws std::invalid_argument.
std::string config_text(const json& value) {
  if (value.is_boolean() || value.is_number()) return value.dump();
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text.find('"') == std::string::npos) return '"' + text + '"';
    if (text.find('\'') == std::string::npos) return '\'' + text + '\'';
    throw std::invalid_argument("holds both kinds of quotes");
  }
  if (!value.is_array())
    throw std::invalid_argument("is neither a string, a number, a truth value nor a list");
  std::vector<std::string> words;
  for (const auto& word : value) {
    if (word.is_array()) throw std::invalid_argument("is a list of lists");
    words.push_back(config_text(word));
  }
  return fmt::format("[{}]", fmt::join(words, ", "));
}

/// In the order of a config file, then those of other versions by name.
std::vector<std::string> ordered_keys(const json& config) {
  std::vector<std::string> keys;
  const Config options;
  Config::visit(options, [&](const char* name, const auto&, const char*) {
    if (config.contains(name)) keys.emplace_back(name);
  });
  const auto known = keys.size();
  for (const auto& entry : config.items()) {
    if (!std::count(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(known), entry.key()))
      keys.push_back(entry.key());
  }
  return keys;
}

std::vector<ConfigEntry> parse_settings(const json& config) {
  std::vector<ConfigEntry> settings;
  for (const auto& key : ordered_keys(config)) {
    ConfigEntry entry{key, "", settings.size() + 1};
    try {
      entry.text = config_text(config[key]);
      if (entry.text.size() > kLongestValue)
        throw std::invalid_argument(fmt::format("has more than {} bytes", kLongestValue));
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("the config's \"{}\" {}", base::excerpt(key), error.what()));
    }
    settings.push_back(std::move(entry));
  }
  return settings;
}

// Metrics. A column is an array with a number per epoch, or, where that is shorter, an object with the epochs
// from which on it has another number. A number that was not finite is null.

using Values = std::vector<double>;

/// The column's numbers, as the file will have them.
Values rounded_column(const std::vector<EpochMetrics>& epochs, const MetricColumn& column) {
  Values values;
  for (const auto& epoch : epochs) values.push_back(rounded(column.value(epoch), precision_of(column.name)));
  return values;
}

bool is_missing(const Values& values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isnan(value); });
}

std::string column_text(const std::vector<EpochMetrics>& epochs, const MetricColumn& column) {
  std::string all;
  std::string changes;
  std::string before;
  for (const auto& epoch : epochs) {
    const auto number = write(column.value(epoch), precision_of(column.name));
    all += (all.empty() ? "[" : ",") + number;
    if (number == before) continue;
    changes += fmt::format("{}\"{}\":{}", changes.empty() ? "{" : ",", epoch.epoch, number);
    before = number;
  }
  return changes.size() < all.size() ? changes + "}" : all + "]";
}

bool counts_from_one(const std::vector<EpochMetrics>& epochs) {
  for (size_t i = 0; i < epochs.size(); ++i) {
    if (epochs[i].epoch != static_cast<int64_t>(i + 1)) return false;
  }
  return true;
}

/// n where every epoch took n steps, counted from the first epoch of the run.
std::optional<int64_t> steps_per_epoch(const std::vector<EpochMetrics>& epochs) {
  const auto& first = epochs.front();
  if (first.epoch < 1 || first.step < 1 || first.step % first.epoch != 0) return std::nullopt;
  const int64_t steps = first.step / first.epoch;
  for (const auto& epoch : epochs) {
    if (epoch.step % epoch.epoch != 0 || epoch.step / epoch.epoch != steps) return std::nullopt;
  }
  return steps;
}

/// Whether the seconds so far are the sums of the epochs' own, up to rounding.
bool seconds_are_sums(const Values& seconds, const Values& epoch_seconds) {
  constexpr double kTolerance = 1e-3;
  double sum = 0;
  for (size_t i = 0; i < seconds.size(); ++i) {
    sum += epoch_seconds[i];
    if (!(std::abs(sum - seconds[i]) <= kTolerance * seconds[i])) return false;
  }
  return true;
}

/// n where every epoch went through n images, up to rounding.
std::optional<int64_t> images_per_epoch(const std::vector<EpochMetrics>& epochs, const Values& per_second,
                                        const Values& epoch_seconds) {
  constexpr double kTolerance = 0.01;
  double least = kMostCount;
  double most = 1;
  for (size_t i = 0; i < per_second.size(); ++i) {
    const double images = per_second[i] * epoch_seconds[i];
    if (!(images >= 1 && images <= kMostCount)) return std::nullopt;
    least = std::min(least, images);
    most = std::max(most, images);
  }
  if (most > least * (1 + kTolerance)) return std::nullopt;
  return std::llround(std::max(1.0, epochs.front().images_per_second * epochs.front().epoch_seconds));
}

std::string epochs_text(const std::vector<EpochMetrics>& epochs) {
  std::string text = ",\n\"epochs\": ";
  if (counts_from_one(epochs)) {
    text += std::to_string(epochs.size());
  } else {
    text += "[";
    for (const auto& epoch : epochs)
      text += (&epoch == &epochs.front() ? "" : ",") + std::to_string(epoch.epoch);
    text += "]";
  }
  std::map<std::string, Values> columns;
  for (const auto& column : metric_columns()) columns[column.name] = rounded_column(epochs, column);
  const auto& epoch_seconds = columns["epoch_seconds"];
  std::vector<std::string> left_out{"epoch"};
  if (const auto steps = steps_per_epoch(epochs)) {
    text += fmt::format(",\n\"steps_per_epoch\": {}", *steps);
    left_out.emplace_back("step");
  }
  if (const auto images = images_per_epoch(epochs, columns["images_per_second"], epoch_seconds)) {
    text += fmt::format(",\n\"images_per_epoch\": {}", *images);
    left_out.emplace_back("images_per_second");
  }
  if (seconds_are_sums(columns["seconds"], epoch_seconds)) left_out.emplace_back("seconds");

  text += ",\n\"metrics\": {";
  const char* separator = "\n";
  for (const auto& column : metric_columns()) {
    if (std::count(left_out.begin(), left_out.end(), column.name) > 0) continue;
    if (is_missing(columns[column.name])) continue;
    text += fmt::format("{}  \"{}\": {}", separator, column.name, column_text(epochs, column));
    separator = ",\n";
  }
  return text + "\n}";
}

/// A whole number from 1 to `most`. Throws std::invalid_argument naming it.
int64_t to_count(const json& value, const std::string& name, double most) {
  const double number = value.is_number() ? value.get<double>() : 0;
  if (!(number >= 1 && number <= most && number == std::floor(number))) {
    throw std::invalid_argument(fmt::format("{} is {}, not a whole number from 1 to {:.0f}", name,
                                            base::excerpt(value.dump()), most));
  }
  return static_cast<int64_t>(number);
}

std::vector<EpochMetrics> numbered_epochs(const json& found) {
  std::vector<EpochMetrics> epochs;
  if (!found.is_array()) {
    epochs.resize(static_cast<size_t>(to_count(found, "\"epochs\"", kMostEpochs)));
    for (size_t i = 0; i < epochs.size(); ++i) epochs[i].epoch = static_cast<int64_t>(i + 1);
    return epochs;
  }
  if (static_cast<double>(found.size()) > kMostEpochs) throw std::invalid_argument("too many \"epochs\"");
  for (const auto& number : found) {
    EpochMetrics epoch;
    epoch.epoch = to_count(number, "an epoch", kMostCount);
    if (!epochs.empty() && epochs.back().epoch >= epoch.epoch)
      throw std::invalid_argument(fmt::format("epoch {} follows epoch {}", epoch.epoch, epochs.back().epoch));
    epochs.push_back(epoch);
  }
  return epochs;
}

double to_value(const json& value) {
  if (!value.is_number() && !value.is_null()) {
    throw std::invalid_argument("must hold numbers and null, found " + base::excerpt(value.dump()));
  }
  return value.is_null() ? EpochMetrics::kMissing : value.get<double>();
}

/// The first epoch of a change, as its key has it.
int64_t to_epoch(const std::string& key) {
  constexpr size_t kMostDigits = 15;
  if (key.empty() || key[0] == '0' || key.size() > kMostDigits ||
      key.find_first_not_of("0123456789") != std::string::npos)
    throw std::invalid_argument("has the key " + base::excerpt(key) + ", which is no epoch");
  return std::stoll(key);
}

/// A number per epoch. Throws std::invalid_argument.
Values column_values(const json& found, const std::vector<EpochMetrics>& epochs) {
  Values values;
  if (found.is_object()) {
    std::map<int64_t, double> changes;
    for (const auto& change : found.items()) changes[to_epoch(change.key())] = to_value(change.value());
    for (const auto& epoch : epochs) {
      const auto next = changes.upper_bound(epoch.epoch);
      if (next == changes.begin())
        throw std::invalid_argument(fmt::format("does not say what it is in epoch {}", epoch.epoch));
      values.push_back(std::prev(next)->second);
    }
    return values;
  }
  if (!found.is_array()) throw std::invalid_argument("must be an array or an object");
  if (found.size() != epochs.size()) {
    throw std::invalid_argument(fmt::format("has {} numbers for {} epochs", found.size(), epochs.size()));
  }
  for (const auto& value : found) values.push_back(to_value(value));
  return values;
}

/// What was left out since it follows from the rest.
void compute_the_rest(const json& root, const json& metrics, std::vector<EpochMetrics>& epochs) {
  if (const auto found = root.find("steps_per_epoch"); found != root.end()) {
    const auto steps = to_count(*found, "\"steps_per_epoch\"", kMostCount);
    if (static_cast<double>(steps) * static_cast<double>(epochs.back().epoch) > kMostCount)
      throw std::invalid_argument(fmt::format("\"steps_per_epoch\" is {}, too large", steps));
    for (auto& epoch : epochs) epoch.step = steps * epoch.epoch;
  }
  if (const auto found = root.find("images_per_epoch"); found != root.end()) {
    const auto images = static_cast<double>(to_count(*found, "\"images_per_epoch\"", kMostCount));
    for (auto& epoch : epochs) epoch.images_per_second = images / epoch.epoch_seconds;
  }
  if (metrics.contains("seconds")) return;
  double sum = 0;
  for (auto& epoch : epochs) epoch.seconds = sum += epoch.epoch_seconds;
}

std::vector<EpochMetrics> parse_epochs(const json& root) {
  const auto found = root.find("epochs");
  if (found == root.end()) return {};
  auto epochs = numbered_epochs(*found);
  const auto metrics = root.value("metrics", json::object());
  if (!metrics.is_object()) throw std::invalid_argument("\"metrics\" must be an object");
  for (const auto& column : metric_columns()) {
    const auto values = metrics.find(column.name);
    if (values == metrics.end() || column.name == std::string("epoch")) continue;
    try {
      const auto numbers = column_values(*values, epochs);
      for (size_t i = 0; i < epochs.size(); ++i) column.set(epochs[i], numbers[i]);
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("\"{}\" {}", column.name, error.what()));
    }
  }
  if (!epochs.empty()) compute_the_rest(root, metrics, epochs);
  return epochs;
}

const json& object_in(const json& root, const char* name) {
  const auto found = root.find(name);
  if (found == root.end() || !found->is_object())
    throw std::invalid_argument(fmt::format("it must have an object \"{}\"", name));
  return *found;
}

}  // namespace

std::string kept_run_text(const RunFolder& run) {
  auto text = fmt::format("{{\n\"{}\": {},\n\"facts\": {{", kFormatKey, kFormat);
  const char* separator = "\n";
  const auto facts = kept_facts(run.facts);
  for (const auto& fact : facts.items()) {
    text += fmt::format("{}  {}: {}", separator, quoted(fact.key()),
                        fact.value().dump(-1, ' ', false, json::error_handler_t::replace));
    separator = ",\n";
  }
  text += "\n},\n\"config\": {";
  separator = "\n";
  for (const auto& entry : run.settings) {
    if (entry.key == "data-dir") continue;  // of one machine
    text += fmt::format("{}  {}: {}", separator, quoted(entry.key),
                        value_of(entry).dump(-1, ' ', false, json::error_handler_t::replace));
    separator = ",\n";
  }
  text += "\n}";
  if (!run.epochs.empty()) text += epochs_text(run.epochs);
  return text + "\n}\n";
}

RunFolder parse_kept_run(const fs::path& file, const std::string& text) {
  if (text.size() > kMostBytes)
    throw DamagedRun(file, fmt::format("{} bytes are more than a kept run has", text.size()));
  try {
    const auto root = base::parse_json(text);
    if (!root.is_object() || !root.contains(kFormatKey))
      throw std::invalid_argument(fmt::format("a kept run is a JSON object with \"{}\"", kFormatKey));
    if (root[kFormatKey] != kFormat) {
      throw std::invalid_argument(fmt::format("\"{}\" is {}; this version reads {}", kFormatKey,
                                              base::excerpt(root[kFormatKey].dump()), kFormat));
    }
    RunFolder run;
    run.folder = run.facts_file = run.config_file = run.metrics_file = file;
    run.name = file.stem().string();
    run.facts = object_in(root, "facts");
    run.facts["name"] = run.name;
    if (const auto version = version_of(run.facts); version.is_string() && !run.facts.contains("version"))
      run.facts["version"] = version;
    run.settings = parse_settings(object_in(root, "config"));
    run.epochs = parse_epochs(root);
    return run;
  } catch (const base::JsonError& error) {
    throw DamagedRun(file, fmt::format("line {}: {}", error.line, error.reason));
  } catch (const std::invalid_argument& error) {
    throw DamagedRun(file, error.what());
  }
}

bool is_kept_run(const fs::path& file) {
  std::error_code ignored;
  if (file.extension() != ".json" || !fs::is_regular_file(file, ignored)) return false;
  // The key is written first.
  constexpr size_t kBeginning = 4096;
  std::string text(kBeginning, '\0');
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  return text.find(fmt::format("\"{}\"", kFormatKey)) != std::string::npos;
}

RunFolder read_run_or_kept(const fs::path& path) {
  if (!is_kept_run(path)) return read_run(path);
  if (const auto size = fs::file_size(path); size > kMostBytes)
    throw DamagedRun(path, fmt::format("{} bytes are more than a kept run has", size));
  return parse_kept_run(path, base::read_file(path));
}

}  // namespace stiefel::record
