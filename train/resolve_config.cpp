#include "resolve_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "base/numbers.h"
#include "base/printable.h"
#include "classification_loss.h"
#include "data/catalog.h"
#include "models/lipschitz_net.h"
#include "models/recurrent_net.h"
#include "penalty_schedule.h"
#include "record/method_facts.h"
#include "train/tasks/task.h"

namespace stiefel::train {

namespace {

template <class Value>
void check(bool good, const std::string& name, const Value& value, const std::string& allowed) {
  if (!good) throw std::invalid_argument(fmt::format("--{} is {}; it must be {}", name, value, allowed));
}

void check_within(double value, const base::Interval& allowed, const std::string& name) {
  check(allowed.contains(value), name, value, to_string(allowed));
}

void check_within(int64_t value, int64_t low, int64_t high, const std::string& name) {
  check(value >= low && value <= high, name, value, fmt::format("from {} to {}", low, high));
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
void check_method(const std::string& value, const std::string& none, record::MethodFamily family,
                  const std::string& name) {
  auto allowed = record::method_names(family);
  allowed.insert(allowed.begin(), none);
  check_one_of(value, allowed, name);
}

/// The task, its network and what trains it.
void resolve_task(Config& config, const record::MethodFacts& method) {
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
        "--optim {} does not keep the matrix of {} on the manifold; choose cayley-sgd, cayley-adam, "
        "cayley-muon or a retraction, or the plain network rnn-N",
        config.optim, config.model));
  }
  if (config.is_parametrized() || config.normalization != "batch" || config.sync_norm ||
      config.has_penalty() || config.dropout > 0) {
    refuse(
        "--weights, --normalisation, --sync-norm, --penalty and --dropout are for images, not for --task " +
        config.task);
  }
}

/// The soft constraints and the parametrisations, which go with Euclidean optimisers only.
void resolve_constraints(const Config& config, const record::MethodFacts& method) {
  check_method(config.penalty, "none", record::MethodFamily::kPenalty, "penalty");
  check_method(config.weights, "plain", record::MethodFamily::kParametrization, "weights");
  check_method(config.normalization, "batch", record::MethodFamily::kNormalization, "normalisation");
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
    if (config.is_parametrized())
      refuse(what, fmt::format("has no meaning with --weights {}, which are orthonormal", config.weights));
    if (!config.penalty_weight) refuse(what, "needs --penalty-weight");
    check_within(*config.penalty_weight, kNotNegative, "penalty-weight");
    PenaltySchedule(*config.penalty_weight, config.penalty_schedule);  // throws where it cannot be read
  } else if (config.penalty_weight || !config.penalty_schedule.empty()) {
    refuse(config.penalty_weight ? "--penalty-weight" : "--penalty-schedule",
           "has no meaning without --penalty so, dso or srip");
  }
  if (config.is_parametrized() && method.is_constrained()) {
    refuse(fmt::format("--weights {}", config.weights),
           fmt::format(
               "has no meaning with --optim {}, which keeps the weights orthonormal itself; use sgd or adam",
               config.optim));
  }
  if (config.sync_norm && config.normalization != "batch")
    refuse("--sync-norm", fmt::format("has no meaning with --normalisation {}", config.normalization));
  if (config.group_size > 0 && config.weights != "omdsm")
    refuse("--group-size", "has no meaning without --weights omdsm");
}

/// The loss, and what a Lipschitz-bounded network has no place for.
void resolve_loss(Config& config) {
  check_one_of(config.loss, loss_names(), "loss");
  const bool sequence = is_sequence_task(config.task);
  const bool lipschitz = models::is_lipschitz(config.model);
  const bool margin = is_margin_loss(config.loss);
  const auto refuse = [](const std::string& why) { throw std::invalid_argument(why); };
  if (sequence && (margin || config.temperature || config.margin_radius)) {
    refuse("--loss, --temperature and --margin-radius are for images, not for --task " + config.task);
  }
  if (margin && !lipschitz) {
    refuse(
        fmt::format("--loss {} asks for a margin in units that only Lipschitz-bounded networks have; add "
                    "--model lip-D-W or lip-mlp-DxW (lip-6-64)",
                    config.loss));
  }
  if (config.margin_radius && !margin) {
    refuse(
        "--margin-radius has no meaning with --loss cross-entropy; add --loss offset-cross-entropy, emma "
        "or hinge");
  }
  if (config.temperature && config.loss == "hinge") {
    refuse("--temperature has no meaning with --loss hinge, which has no softmax");
  }
  if (!sequence && !config.temperature && config.loss != "hinge") config.temperature = lipschitz ? 2 : 1;
  if (config.temperature) check_within(*config.temperature, {0, kMost, false}, "temperature");
  if (margin && !config.margin_radius) config.margin_radius = 108.0 / 255;
  if (config.margin_radius) check_within(*config.margin_radius, kNotNegative, "margin-radius");
  if (lipschitz && (config.is_parametrized() || config.normalization != "batch" || config.sync_norm)) {
    refuse(
        fmt::format("--model {} has no convolutions and no normalisation, so --weights, --normalisation "
                    "and --sync-norm have no meaning with it",
                    config.model));
  }
}

/// What runs where and in which numbers. `device` and `precision` stay auto: what they mean is decided where
/// a run starts or goes on, so that a run can go on on another machine.
void resolve_device(Config& config, const record::MethodFacts& method) {
  check_one_of(config.device, {"auto", "cpu", "cuda"}, "device");
  check_one_of(config.precision, {"auto", "fp32", "tf32", "bf16"}, "precision");
  check_one_of(config.step_precision, {"auto", "full", "mixed"}, "step-precision");
  check_one_of(config.graph, {"auto", "off"}, "graph");
  check_one_of(config.overlap_steps, {"auto", "on", "off"}, "overlap-steps");
  const auto refuse = [&](const std::string& why) {
    throw std::invalid_argument(fmt::format("--precision is {}, {}", config.precision, why));
  };
  if (config.device == "cpu" && config.precision != "auto" && config.precision != "fp32") {
    refuse("which only a GPU has, but --device is cpu; use fp32 or auto");
  }
  if (config.precision == "bf16") {
    if (is_sequence_task(config.task)) refuse("but a recurrent network needs fp32 (or tf32)");
    if (config.is_parametrized())
      refuse(fmt::format("in which --weights {} would not be orthonormal; use tf32 or fp32", config.weights));
    if (config.normalization != "batch")
      refuse(fmt::format("in which --normalisation {} cannot be computed; use tf32 or fp32",
                         config.normalization));
  }
  if (config.step_precision == "mixed" && !method.has_mixed_step) {
    throw std::invalid_argument(
        fmt::format("--step-precision mixed has no meaning with --optim {}; it is for cayley-sgd, "
                    "cayley-adam and cayley-muon",
                    config.optim));
  }
  // Off a GPU every step is full, so this needs no machine to decide.
  if (config.step_precision == "auto") {
    const bool mixed = method.has_mixed_step && !is_sequence_task(config.task) && config.precision != "fp32";
    config.step_precision = mixed ? "mixed" : "full";
  }
}

/// Learning rates, momentum and weight decay.
void resolve_rates(Config& config, const record::MethodFacts& method) {
  const bool sequence = is_sequence_task(config.task);
  if (!config.lr) config.lr = sequence ? method.sequence_lr : method.lr;
  check_within(*config.lr, kNotNegative, "lr");
  if (method.has_matrix_rate()) {
    const double of_sequence =
        config.task == "pixel" ? method.pixel_lr_manifold : method.synthetic_lr_manifold;
    if (!config.lr_manifold) config.lr_manifold = sequence ? of_sequence : method.lr_manifold;
    check_within(*config.lr_manifold, kNotNegative, "lr-manifold");
  } else if (config.lr_manifold) {
    throw std::invalid_argument(fmt::format(
        "--lr-manifold has no meaning with --optim {}: it has no orthonormal weights", config.optim));
  }
  if (!config.momentum && !method.is_retraction()) config.momentum = 0.9;
  if (config.momentum) check_within(*config.momentum, kBelowOne, "momentum");
  if (!config.weight_decay) config.weight_decay = sequence ? 0 : method.weight_decay;
  check_within(*config.weight_decay, kNotNegative, "weight-decay");
  check_within(config.beta1, kBelowOne, "beta1");
  if (!config.beta2) config.beta2 = method.beta2;
  check_within(*config.beta2, kBelowOne, "beta2");
}

void resolve_schedule(Config& config, const record::MethodFacts& method) {
  if (config.schedule == "auto") {
    const auto* of_images = method.uses_root ? "cosine" : "multi-step";
    config.schedule = is_sequence_task(config.task) ? "constant" : of_images;
  }
  check_one_of(config.schedule, {"multi-step", "cosine", "constant"}, "schedule");
  if (config.schedule == "multi-step") {
    const auto total = static_cast<double>(config.epochs);
    if (config.drops.empty()) config.drops = {0.3 * total, 0.6 * total, 0.8 * total};
  } else if (!config.drops.empty()) {
    throw std::invalid_argument(fmt::format("--drops has no meaning with --schedule {}", config.schedule));
  }
  for (const double drop : config.drops) check_within(drop, kNotNegative, "drops");
  check_within(config.drop_factor, {1e-12, 1}, "drop-factor");
  check_within(config.warm_up, kNotNegative, "warm-up");
}

}  // namespace

void resolve(Config& config) {
  data::facts_of(config.data);
  const record::MethodFacts& method = record::optimizer_facts(config.optim);
  resolve_task(config, method);
  check_within(config.epochs, 1, 1000000, "epochs");
  check_within(config.batch, 1, 1000000, "batch");
  check(config.seed >= 0, "seed", config.seed, "0 or more");
  resolve_rates(config, method);
  resolve_schedule(config, method);
  check_within(config.iterations, 0, 1000, "iterations");
  check_one_of(config.norm, {"frobenius", "one", "spectral"}, "norm");
  check_within(config.q, {0, 1, false, false}, "q");
  check_within(config.root_rounds, 1, 5, "root-rounds");
  if (!config.polish && method.uses_root) {
    throw std::invalid_argument(
        fmt::format("--no-polish has no meaning with --optim {}: it is the paper's iteration to the letter, "
                    "cayley-sgd's and cayley-adam's",
                    config.optim));
  }
  resolve_constraints(config, method);
  resolve_loss(config);
  check_one_of(config.augment, {"auto", "none", "flip", "flip-crop"}, "augment");
  if (config.augment == "auto") config.augment = config.data.rfind("cifar", 0) == 0 ? "flip-crop" : "none";
  check_within(config.dropout, kBelowOne, "dropout");
  if (!config.validation) config.validation = config.task == "pixel" ? 5000 : 0;
  check(*config.validation >= 0, "validation", *config.validation, "0 or more");
  check(*config.validation == 0 || config.needs_data(), "validation", *config.validation,
        "0 with --task " + config.task);
  check(config.patience >= 0, "patience", config.patience, "0 or more");
  resolve_device(config, method);
  check(config.threads >= 0, "threads", config.threads, "0 or more");  // the upper bound is the machine's
  check_within(config.checkpoint_every, 0, 1000000, "checkpoint-every");
}

}  // namespace stiefel::train
