#include "config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <sstream>
#include <stdexcept>

#include "base/numbers.h"
#include "base/printable.h"
#include "data/catalogue.h"
#include "models/recurrent_net.h"
#include "runs/method_facts.h"
#include "train/penalty_schedule.h"
#include "train/tasks/task.h"

namespace stiefel::train {

namespace {

std::string quote(const std::string& text) {
  if (text.find_first_of("\"#\n") != std::string::npos) {
    throw std::invalid_argument(
        fmt::format("'{}' cannot be written into a config file: it holds a quote, a # or a line break",
                    base::printable(text)));
  }
  return '"' + text + '"';
}

// The shortest text that reads back as the same number.
std::string write(double value) { return fmt::format("{}", value); }
std::string write(int64_t value) { return fmt::format("{}", value); }
std::string write(bool value) { return value ? "true" : "false"; }
std::string write(const std::string& value) { return quote(value); }
std::string write(const std::vector<double>& values) { return fmt::format("[{}]", fmt::join(values, ", ")); }
template <class Value>
std::string write(const std::optional<Value>& value) {
  return value ? write(*value) : std::string();
}

[[noreturn]] void unreadable(const std::string& name, const std::string& value, const char* kind) {
  throw std::invalid_argument(fmt::format("{} = {}: expected {}", name, base::printable(value), kind));
}

/// What `parse` makes of the text; its errors name the option too.
template <class Parse>
auto parsed(const std::string& name, const std::string& value, const Parse& parse) {
  try {
    return parse(value);
  } catch (const std::invalid_argument& error) {
    throw std::invalid_argument(fmt::format("{}: {}", name, error.what()));
  }
}

void read(const std::string& name, const std::vector<std::string>& words, std::vector<double>& value) {
  value.clear();
  for (const auto& word : words) {
    if (!word.empty()) value.push_back(parsed(name, word, base::to_number));
  }
}

const std::string& only(const std::string& name, const std::vector<std::string>& words) {
  if (words.size() != 1) unreadable(name, fmt::format("{}", fmt::join(words, ", ")), "one value");
  return words[0];
}

void read(const std::string& name, const std::vector<std::string>& words, double& value) {
  value = parsed(name, only(name, words), base::to_number);
}
void read(const std::string& name, const std::vector<std::string>& words, std::string& value) {
  value = words.empty() ? "" : only(name, words);
}
void read(const std::string& name, const std::vector<std::string>& words, int64_t& value) {
  value = parsed(name, only(name, words), base::to_whole);
}
template <class Value>
void read(const std::string& name, const std::vector<std::string>& words, std::optional<Value>& value) {
  value.emplace();
  read(name, words, *value);
}
void read(const std::string& name, const std::vector<std::string>& words, bool& value) {
  const auto& text = only(name, words);
  if (text != "true" && text != "false") unreadable(name, text, "true or false");
  value = text == "true";
}

void check(bool good, const std::string& name, const std::string& value, const std::string& allowed) {
  if (!good) throw std::invalid_argument(fmt::format("--{} is {}; it must be {}", name, value, allowed));
}

void check_within(double value, const base::Interval& allowed, const std::string& name) {
  check(allowed.contains(value), name, write(value), to_string(allowed));
}

void check_within(int64_t value, int64_t low, int64_t high, const std::string& name) {
  check(value >= low && value <= high, name, write(value), fmt::format("from {} to {}", low, high));
}

constexpr double kMost = 1e12;
constexpr base::Interval kNotNegative{0, kMost};
constexpr base::Interval kBelowOne{0, 1, true, false};

void check_one_of(const std::string& value, const std::vector<std::string>& allowed,
                  const std::string& name) {
  check(std::find(allowed.begin(), allowed.end(), value) != allowed.end(), name,
        "'" + base::printable(value) + "'", fmt::format("one of {}", fmt::join(allowed, ", ")));
}

/// A choice of none, or of the methods of a family.
void check_method(const std::string& value, const std::string& none, runs::MethodFamily family,
                  const std::string& name) {
  auto allowed = runs::method_names(family);
  allowed.insert(allowed.begin(), none);
  check_one_of(value, allowed, name);
}

/// The task, its network and what trains it.
void resolve_task(Config& config, const runs::MethodFacts& method) {
  check_one_of(config.task, task_names(), "task");
  const bool sequence = is_sequence_task(config.task);
  if (config.model == "auto") config.model = sequence ? "urnn-116" : "small";
  if (config.rest == "auto") config.rest = sequence ? "rmsprop" : "sgd";
  check_one_of(config.rest, {"sgd", "adam", "rmsprop"}, "rest");
  check_within(config.clip, kNotNegative, "clip");
  check_within(config.length, 2, 1000000, "length");
  const bool recurrent = models::is_recurrent(config.model);
  const auto refuse = [&](const std::string& why) { throw std::invalid_argument(why); };
  if (sequence && !recurrent) {
    refuse(fmt::format("--model {} is for images; --task {} takes urnn-N, ornn-N or rnn-N (urnn-116)",
                       config.model, config.task));
  }
  if (!sequence && recurrent) {
    refuse(fmt::format("--model {} is for sequences; add --task pixel, copying or adding", config.model));
  }
  if (config.permuted && config.task != "pixel") refuse("--permuted has no meaning without --task pixel");
  if (config.rms_scaled && !method.is_retraction()) {
    refuse(
        fmt::format("--rms-scaled has no meaning with --optim {}; it goes with a retraction (cayley-closed)",
                    config.optim));
  }
  if (!sequence) return;
  const bool plain = config.model[0] == 'r';
  if (plain && method.is_constrained()) {
    refuse(fmt::format(
        "--model {} is a plain network; train it with --optim adam or sgd, or choose urnn-N or ornn-N",
        config.model));
  }
  if (!plain && !method.is_constrained()) {
    refuse(fmt::format(
        "--optim {} does not keep the matrix of {} on the manifold; choose cayley-sgd, cayley-adam or a "
        "retraction, or the plain network rnn-N",
        config.optim, config.model));
  }
  if (config.is_parametrised() || config.normalisation != "batch" || config.has_penalty() ||
      config.dropout > 0) {
    refuse("--weights, --normalisation, --penalty and --dropout are for images, not for --task " +
           config.task);
  }
}

/// The soft constraints and the parametrisations, which go with Euclidean optimisers only.
void resolve_constraints(const Config& config, const runs::MethodFacts& method) {
  check_method(config.penalty, "none", runs::MethodFamily::kPenalty, "penalty");
  check_method(config.weights, "plain", runs::MethodFamily::kParametrisation, "weights");
  check_method(config.normalisation, "batch", runs::MethodFamily::kNormalisation, "normalisation");
  check_within(config.srip_rounds, 1, 1000, "srip-rounds");
  check_within(config.group_size, 0, 1000000, "group-size");
  const auto refuse = [](const std::string& what, const std::string& why) {
    throw std::invalid_argument(fmt::format("{} {}", what, why));
  };
  if (config.has_penalty()) {
    const auto what = fmt::format("--penalty {}", config.penalty);
    if (method.is_constrained())
      refuse(what,
             fmt::format("has no meaning with --optim {}, whose weights are orthonormal", config.optim));
    if (config.is_parametrised())
      refuse(what, fmt::format("has no meaning with --weights {}, which are orthonormal", config.weights));
    if (!config.penalty_weight) refuse(what, "needs --penalty-weight");
    check_within(*config.penalty_weight, kNotNegative, "penalty-weight");
    PenaltySchedule(*config.penalty_weight, config.penalty_schedule);  // throws where it cannot be read
  } else if (config.penalty_weight || !config.penalty_schedule.empty()) {
    refuse(config.penalty_weight ? "--penalty-weight" : "--penalty-schedule",
           "has no meaning without --penalty so, dso or srip");
  }
  if (config.is_parametrised() && method.is_constrained()) {
    refuse(fmt::format("--weights {}", config.weights),
           fmt::format(
               "has no meaning with --optim {}, which keeps the weights orthonormal itself; use sgd or adam",
               config.optim));
  }
  if (config.group_size > 0 && config.weights != "omdsm")
    refuse("--group-size", "has no meaning without --weights omdsm");
}

/// What runs where and in which numbers. `device` and `precision` stay auto: what they mean is decided where
/// a run starts or goes on, so that a run can go on on another machine.
void resolve_device(Config& config, const runs::MethodFacts& method) {
  check_one_of(config.device, {"auto", "cpu", "cuda"}, "device");
  check_one_of(config.precision, {"auto", "fp32", "tf32", "bf16"}, "precision");
  check_one_of(config.step_precision, {"auto", "full", "mixed"}, "step-precision");
  check_one_of(config.graph, {"auto", "off"}, "graph");
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("--precision is {}, {}", config.precision, why));
  };
  if (config.device == "cpu" && config.precision != "auto" && config.precision != "fp32") {
    refuse("which only a GPU has, but --device is cpu; use fp32 or auto");
  }
  if (config.precision == "bf16") {
    if (is_sequence_task(config.task)) refuse("but a recurrent network needs fp32 (or tf32)");
    if (config.is_parametrised())
      refuse(fmt::format("in which --weights {} would not be orthonormal; use tf32 or fp32", config.weights));
    if (config.normalisation != "batch")
      refuse(fmt::format("in which --normalisation {} cannot be computed; use tf32 or fp32",
                         config.normalisation));
  }
  const bool cayley = method.family == runs::MethodFamily::kCayley;
  if (config.step_precision == "mixed" && !cayley) {
    throw std::invalid_argument(fmt::format(
        "--step-precision mixed has no meaning with --optim {}; it is cayley-sgd's and cayley-adam's",
        config.optim));
  }
  // Off a GPU every step is full, so this needs no machine to decide.
  if (config.step_precision == "auto") {
    const bool mixed = cayley && !is_sequence_task(config.task) && config.precision != "fp32";
    config.step_precision = mixed ? "mixed" : "full";
  }
}

/// CLI11 keeps the whole path of every section that it enters and leaves, so that one line of thousands of
/// them takes all memory. We have no sections.
void refuse_nested_sections(const std::string& text, const std::string& source) {
  constexpr auto kMost = 10;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line[first] != '[') continue;
    if (std::count(line.begin(), line.end(), '.') > kMost) {
      throw std::invalid_argument(fmt::format(
          "{}: line {}: sections nested more than {} deep; a config has `name = value` lines only", source,
          number, kMost));
    }
  }
}

}  // namespace

std::string Config::task_name() const {
  if (!needs_data()) return task + "-" + std::to_string(length);
  if (task == "image") return data;
  return (permuted ? "permuted-" : "pixel-") + data;
}

std::string Config::method_name() const {
  auto name = optim;
  if (runs::optimizer_facts(optim).is_retraction() && momentum.value_or(0) > 0) name += "+m";
  if (has_penalty()) name += "+" + penalty;
  if (is_parametrised()) name += "+" + weights;
  if (normalisation != "batch") name += "+" + normalisation;
  return name;
}

void Config::resolve() {
  data::facts_of(data);
  const runs::MethodFacts& method = runs::optimizer_facts(optim);
  resolve_task(*this, method);
  const bool sequence = is_sequence_task(task);
  check_within(epochs, 1, 1000000, "epochs");
  check_within(batch, 1, 1000000, "batch");
  check(seed >= 0, "seed", write(seed), "0 or more");
  if (!lr) lr = sequence ? method.sequence_lr : method.lr;
  check_within(*lr, kNotNegative, "lr");
  if (method.is_constrained()) {
    const double of_sequence = task == "pixel" ? method.pixel_lr_manifold : method.synthetic_lr_manifold;
    if (!lr_manifold) lr_manifold = sequence ? of_sequence : method.lr_manifold;
    check_within(*lr_manifold, kNotNegative, "lr-manifold");
  } else if (lr_manifold) {
    throw std::invalid_argument(
        fmt::format("--lr-manifold has no meaning with --optim {}: it has no orthonormal weights", optim));
  }
  if (!momentum && !method.is_retraction()) momentum = 0.9;
  if (momentum) check_within(*momentum, kBelowOne, "momentum");
  if (!weight_decay) weight_decay = sequence ? 0 : method.weight_decay;
  check_within(*weight_decay, kNotNegative, "weight-decay");
  check_within(beta1, kBelowOne, "beta1");
  if (!beta2) beta2 = method.beta2;
  check_within(*beta2, kBelowOne, "beta2");
  if (schedule == "auto") schedule = sequence ? "constant" : "multi-step";
  check_one_of(schedule, {"multi-step", "cosine", "constant"}, "schedule");
  if (schedule == "multi-step") {
    const auto total = static_cast<double>(epochs);
    if (drops.empty()) drops = {0.3 * total, 0.6 * total, 0.8 * total};
  } else if (!drops.empty()) {
    throw std::invalid_argument(fmt::format("--drops has no meaning with --schedule {}", schedule));
  }
  for (const double drop : drops) check_within(drop, kNotNegative, "drops");
  check_within(drop_factor, {1e-12, 1}, "drop-factor");
  check_within(warm_up, kNotNegative, "warm-up");
  check_within(iterations, 0, 1000, "iterations");
  check_one_of(norm, {"frobenius", "one", "spectral"}, "norm");
  check_within(q, {0, 1, false, false}, "q");
  resolve_constraints(*this, method);
  check_one_of(augment, {"auto", "none", "flip", "flip-crop"}, "augment");
  if (augment == "auto") augment = data.rfind("cifar", 0) == 0 ? "flip-crop" : "none";
  check_within(dropout, kBelowOne, "dropout");
  if (!validation) validation = task == "pixel" ? 5000 : 0;
  check(*validation >= 0, "validation", write(validation), "0 or more");
  check(*validation == 0 || needs_data(), "validation", write(validation), "0 with --task " + task);
  check(patience >= 0, "patience", write(patience), "0 or more");
  resolve_device(*this, method);
  check(threads >= 0, "threads", write(threads), "0 or more");  // the upper bound is the machine's
  check_within(checkpoint_every, 0, 1000000, "checkpoint-every");
}

std::string to_toml(const Config& config) {
  std::string text;
  Config::visit(config, [&](const char* name, const auto& value, const char*) {
    const auto written = write(value);
    if (!written.empty()) text += fmt::format("{} = {}\n", name, written);
  });
  return text;
}

Config config_from_toml(const std::string& text, const std::string& source) {
  Config config;
  refuse_nested_sections(text, source);
  const auto where = base::printable(source);
  std::istringstream stream(text);
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_config(stream);
  } catch (const CLI::Error& error) {
    throw std::invalid_argument(fmt::format("{}: {}", where, error.what()));
  }
  for (const auto& item : items) {
    if (item.name == "++" || item.name == "--") continue;  // CLI11's marks of sections
    const auto key = item.fullname();
    bool known = false;
    try {
      Config::visit(config, [&](const char* name, auto& value, const char*) {
        if (key != name) return;
        known = true;
        read(key, item.inputs, value);
      });
    } catch (const std::invalid_argument& error) {
      throw std::invalid_argument(fmt::format("{}: {}", where, error.what()));
    }
    if (!known) {
      throw std::invalid_argument(fmt::format("{}: no option is called '{}' (see stiefel train --help)",
                                              where, base::printable(key)));
    }
  }
  return config;
}

std::vector<std::string> differences(const Config& a, const Config& b) {
  std::vector<std::string> first;
  std::vector<std::string> names;
  Config::visit(a, [&](const char*, const auto& value, const char*) { first.push_back(write(value)); });
  size_t i = 0;
  Config::visit(b, [&](const char* name, const auto& value, const char*) {
    if (write(value) != first[i++]) names.emplace_back(name);
  });
  return names;
}

}  // namespace stiefel::train
