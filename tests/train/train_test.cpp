#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/files.h"
#include "models/classifier.h"
#include "train/clip.h"
#include "train/half_weights.h"
#include "train/message.h"
#include "train/methods.h"
#include "train/orthonormality.h"
#include "train/penalty_schedule.h"
#include "train/precision.h"
#include "train/resolve_config.h"
#include "train/select_method.h"
#include "train/step_graph.h"
#include "train/tasks/epoch_table.h"

// The parts of the trainer, each on its own; command_test.py drives the whole.

namespace train_test {

namespace fs = std::filesystem;
namespace base = stiefel::base;
using namespace stiefel::train;

std::string error_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(Config, AResolvedOneSurvivesTheRoundTrip) {
  Config resolved;
  resolve(resolved);
  EXPECT_EQ(differences(stiefel::record::config_from_toml(to_toml(resolved), "test"), resolved),
            std::vector<std::string>{});
}

TEST(Config, ResolvesToThePapersSettings) {
  Config config;
  config.optim = "cayley-adam";
  config.data = "cifar10";
  resolve(config);
  EXPECT_EQ(*config.lr, 0.01);
  EXPECT_EQ(*config.lr_manifold, 0.4);
  EXPECT_EQ(*config.beta2, 0.99);
  EXPECT_EQ(config.drops, (std::vector<double>{60, 120, 160}));
  EXPECT_EQ(config.augment, "flip-crop");
  Config plain;
  plain.optim = "sgd";
  resolve(plain);
  EXPECT_EQ(*plain.lr, 0.1);
  EXPECT_FALSE(plain.lr_manifold);
  EXPECT_EQ(plain.augment, "none");
}

TEST(Config, ContradictionsAreNamed) {
  const auto resolve = [](const std::function<void(Config&)>& change) {
    Config config;
    change(config);
    return error_of([&] { stiefel::train::resolve(config); });
  };
  EXPECT_NE(resolve([](Config& c) { c.optim = "sgdx"; }).find("cayley-adam"), std::string::npos);
  const auto literal_muon = [](Config& c) {
    c.optim = "cayley-muon";
    c.polish = false;
  };
  EXPECT_NE(resolve(literal_muon).find("--no-polish has no meaning with --optim cayley-muon"),
            std::string::npos);
  EXPECT_NE(resolve([](Config& c) { c.root_rounds = 6; }).find("root-rounds"), std::string::npos);
  EXPECT_NE(resolve([](Config& c) { c.data = "imagenet"; }).find("fashion-mnist"), std::string::npos);
  EXPECT_NE(resolve([](Config& c) { c.epochs = 0; }).find("--epochs is 0"), std::string::npos);
  EXPECT_NE(resolve([](Config& c) { c.momentum = NAN; }).find("--momentum"), std::string::npos);
  EXPECT_NE(resolve([](Config& c) { c.lr = -1; }).find("--lr is -1"), std::string::npos);
  EXPECT_NE(resolve([](Config& c) { c.optim = "sgd", c.lr_manifold = 1; }).find("--lr-manifold"),
            std::string::npos);
  EXPECT_NE(resolve([](Config& c) { c.schedule = "cosine", c.drops = {3}; }).find("--drops"),
            std::string::npos);
}

TEST(Config, PrecisionsAreRefusedWhereTheyCannotBe) {
  const auto resolve = [](const std::function<void(Config&)>& change) {
    Config config;
    change(config);
    return error_of([&] { stiefel::train::resolve(config); });
  };
  const auto expect = [&](const std::function<void(Config&)>& change, const std::string& part) {
    EXPECT_NE(resolve(change).find(part), std::string::npos) << "expected " << part;
  };
  EXPECT_EQ(resolve([](Config& c) { c.precision = "bf16"; }), "");
  EXPECT_EQ(resolve([](Config& c) { c.precision = "fp32", c.device = "cpu"; }), "");
  expect([](Config& c) { c.precision = "fp16"; }, "auto, fp32, tf32, bf16");
  expect([](Config& c) { c.graph = "on"; }, "--graph is 'on'");
  expect([](Config& c) { c.precision = "tf32", c.device = "cpu"; }, "only a GPU has");
  expect([](Config& c) { c.precision = "bf16", c.task = "copying"; }, "recurrent");
  expect([](Config& c) { c.precision = "bf16", c.optim = "sgd", c.weights = "omdsm"; }, "--weights omdsm");
  expect([](Config& c) { c.precision = "bf16", c.optim = "sgd", c.normalization = "dbn"; }, "dbn");
  expect([](Config& c) { c.step_precision = "mixed", c.optim = "qr"; }, "--step-precision mixed");
  expect([](Config& c) { c.step_precision = "half"; }, "auto, full, mixed");
}

TEST(Config, ResolvesAlikeOnEveryMachine) {
  // A run may go on on another machine, so only what needs no machine to decide is decided.
  Config config;
  resolve(config);
  EXPECT_EQ(config.device, "auto");
  EXPECT_EQ(config.precision, "auto");
  EXPECT_EQ(config.step_precision, "mixed");  // which off a GPU is full
  Config exact;
  exact.precision = "fp32";
  resolve(exact);
  EXPECT_EQ(exact.step_precision, "full");
  Config sequence;
  sequence.task = "copying";
  resolve(sequence);
  EXPECT_EQ(sequence.step_precision, "full");
  EXPECT_EQ(choose_precision(config, at::kCPU), NetworkPrecision::kFp32);
  EXPECT_EQ(choose_precision(config, at::kCUDA), NetworkPrecision::kTf32);
  EXPECT_EQ(choose_precision(sequence, at::kCUDA), NetworkPrecision::kFp32);
  config.precision = "bf16";
  EXPECT_EQ(choose_precision(config, at::kCUDA), NetworkPrecision::kBf16);
  EXPECT_NE(error_of([&] { choose_precision(config, at::kCPU); }).find("only a GPU has"), std::string::npos);

  const stiefel::DeviceKernels ampere{"ampere", "", 8, 6}, turing{"none", "", 7, 5};
  EXPECT_EQ(choose_precision(config, at::kCUDA, ampere), NetworkPrecision::kBf16);
  const auto refusal = error_of([&] { choose_precision(config, at::kCUDA, turing); });
  EXPECT_NE(refusal.find("bf16"), std::string::npos) << refusal;
  EXPECT_NE(refusal.find("7.5; use fp32 or auto"), std::string::npos) << refusal;
  config.precision = "auto";
  EXPECT_EQ(choose_precision(config, at::kCUDA, ampere), NetworkPrecision::kTf32);
  EXPECT_EQ(choose_precision(config, at::kCUDA, turing), NetworkPrecision::kFp32);
}

TEST(Clip, ScalesAsTorchDoes) {
  for (const double size : {0.01, 1.0, 100.0}) {
    std::vector<at::Tensor> ours;
    std::vector<at::Tensor> theirs;
    for (const int64_t n : {3, 50, 700}) {
      const auto gradient = torch::randn({n}) * size;
      for (auto* list : {&ours, &theirs}) {
        list->push_back(torch::zeros({n}).requires_grad_());
        list->back().mutable_grad() = gradient.clone();
      }
    }
    ours.push_back(torch::zeros({2}).requires_grad_());  // without a gradient
    clip_gradients_(ours, 2.5);
    torch::nn::utils::clip_grad_norm_(theirs, 2.5);
    for (size_t i = 0; i < theirs.size(); ++i) EXPECT_TRUE(torch::equal(ours[i].grad(), theirs[i].grad()));
  }
}

TEST(HalfWeights, AreTheParametersRoundedAndGiveTheirGradientsBack) {
  const auto net = stiefel::models::make_classifier("wrn-10-1", {3, 10, 0});
  std::vector<torch::nn::Conv2dImpl*> convolutions;
  for (const auto& module : net->modules()) {
    if (auto* found = module->as<torch::nn::Conv2dImpl>()) convolutions.push_back(found);
  }
  std::vector<at::Tensor> parameters, factors;
  for (auto* convolution : convolutions) {
    auto& weight = convolution->weight;
    weight.set_data(weight.data().contiguous(at::MemoryFormat::ChannelsLast));
    parameters.push_back(weight);
    factors.push_back(torch::randn(weight.sizes()).to(at::kBFloat16));
  }
  ASSERT_GT(parameters.size(), 5U);
  {
    const HalfWeights none(*net, NetworkPrecision::kTf32);
    EXPECT_TRUE(convolutions[0]->weight.is_same(parameters[0]));
  }
  for (const int64_t parts : {1, 3, 1000}) {
    for (const auto& parameter : parameters) parameter.mutable_grad() = at::Tensor();
    {
      const HalfWeights halves(*net, NetworkPrecision::kBf16, parts);
      at::Tensor loss = torch::zeros({});
      for (size_t i = 0; i < parameters.size(); ++i) {
        const auto& half = convolutions[i]->weight;
        EXPECT_TRUE(at::equal(half, parameters[i].to(at::kBFloat16)));
        EXPECT_EQ(half.strides(), parameters[i].strides());
        if (i != 1) loss = loss + (half * factors[i]).to(at::kFloat).sum();
      }
      loss.backward();
    }
    for (size_t i = 0; i < parameters.size(); ++i) {
      EXPECT_TRUE(convolutions[i]->weight.is_same(parameters[i]));
      ASSERT_EQ(parameters[i].grad().defined(), i != 1) << "the second was in no loss";
      if (i == 1) continue;
      EXPECT_TRUE(at::equal(parameters[i].grad(), factors[i].to(at::kFloat)));
    }
  }
  const torch::NoGradGuard no_grad;
  const HalfWeights halves(*net, NetworkPrecision::kBf16, 3);
  EXPECT_FALSE(convolutions[0]->weight.requires_grad());
}

TEST(HalfWeights, PartsGiveTheirGradientsBackWhileTheBackwardPassGoesOn) {
  torch::nn::Sequential net;
  for (int i = 0; i < 6; ++i)
    net->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(4, 4, 1).bias(false)));
  const auto there = [&] {  // how many gradients are
    int64_t count = 0;
    for (const auto& parameter : net->parameters()) count += parameter.grad().defined();
    return count;
  };
  for (const auto& [parts, expected] : std::vector<std::pair<int64_t, std::vector<int64_t>>>{
           {1, {0, 0, 0, 0, 0, 0}},
           {2, {0, 0, 0, 3, 3, 3}},
           {3, {0, 0, 2, 2, 4, 4}},
           {6, {0, 1, 2, 3, 4, 5}}}) {
    net->zero_grad();
    for (const auto& parameter : net->parameters()) parameter.mutable_grad() = at::Tensor();
    std::vector<int64_t> seen;  // when each layer is reached, from the last
    const HalfWeights halves(*net, NetworkPrecision::kBf16, parts);
    at::Tensor x = torch::ones({4});
    for (const auto& module : net->children()) {
      x = torch::mv(module->as<torch::nn::Conv2dImpl>()->weight.to(at::kFloat).view({4, 4}), x).tanh();
      x.register_hook([&](at::Tensor) { seen.push_back(there()); });
    }
    x.sum().backward();
    EXPECT_EQ(seen, expected) << parts;
    EXPECT_EQ(there(), 6);
  }
}

TEST(EpochTable, GivesTheRowsThatAreSought) {
  EpochTable table(at::kCPU);
  int made = 0;
  at::Tensor rows;
  const auto make = [&] {
    ++made;
    return rows = torch::randint(1000, {5, 2, 3}, at::kLong);
  };
  for (const int64_t step : {0, 1, 2, 4, 1, 1, 0}) {
    table.seek(7, step, make);
    EXPECT_TRUE(torch::equal(table.next(), rows[step])) << step;
  }
  EXPECT_EQ(made, 1);
  table.seek(8, 1, make);
  EXPECT_TRUE(torch::equal(table.next(), rows[1]));
  EXPECT_EQ(made, 2);
}

TEST(StepGraph, OffAGpuEveryStepRunsAsItIs) {
  StepGraph graph(at::kCPU, true);
  int runs = 0;
  for (int i = 0; i < 10; ++i) graph.run([&] { ++runs; });
  EXPECT_EQ(runs, 10);
  EXPECT_FALSE(graph.captured());
  graph.refuse("whatever");
  EXPECT_FALSE(graph.take_reason()) << "nobody expects a graph there";
}

TEST(Config, PenaltiesAndLayersGoWithEuclideanOptimizers) {
  const auto resolve = [](const std::function<void(Config&)>& change) {
    Config config;
    config.optim = "sgd";
    change(config);
    return error_of([&] { stiefel::train::resolve(config); });
  };
  const auto expect = [&](const std::function<void(Config&)>& change, const std::string& part) {
    EXPECT_NE(resolve(change).find(part), std::string::npos) << "expected " << part;
  };
  EXPECT_EQ(resolve([](Config& c) { c.penalty = "srip", c.penalty_weight = 0.1; }), "");
  EXPECT_EQ(resolve([](Config& c) { c.weights = "omdsm", c.group_size = 64, c.normalization = "dbn"; }), "");
  expect([](Config& c) { c.penalty = "l2"; }, "none, so, dso, srip");
  expect([](Config& c) { c.penalty = "so"; }, "needs --penalty-weight");
  expect([](Config& c) { c.penalty_weight = 1; }, "--penalty-weight has no meaning");
  expect([](Config& c) { c.penalty_schedule = "3:1"; }, "--penalty-schedule has no meaning");
  expect([](Config& c) { c.penalty = "so", c.penalty_weight = -1; }, "--penalty-weight is -1");
  expect([](Config& c) { c.penalty = "so", c.penalty_weight = 1, c.optim = "qr"; }, "--optim qr");
  expect([](Config& c) { c.penalty = "so", c.penalty_weight = 1, c.weights = "omdsm"; }, "--weights omdsm");
  expect([](Config& c) { c.penalty = "so", c.penalty_weight = 1, c.penalty_schedule = "5:0.1,3:0"; },
         "'3:0'");
  expect([](Config& c) { c.penalty = "srip", c.penalty_weight = 1, c.srip_rounds = 0; },
         "--srip-rounds is 0");
  expect([](Config& c) { c.weights = "cayley", c.optim = "cayley-sgd"; }, "--weights cayley has no meaning");
  expect([](Config& c) { c.weights = "qr"; }, "householder");
  expect([](Config& c) { c.group_size = 3; }, "--group-size has no meaning");
  expect([](Config& c) { c.normalization = "layer"; }, "batch, dbn");
}

TEST(Config, MomentumOfARetractionIsOnlyWhatIsGiven) {
  Config bare;
  bare.optim = "polar";
  resolve(bare);
  EXPECT_FALSE(bare.momentum);
  EXPECT_EQ(bare.method_name(), "polar");
  Config given = bare;
  given.momentum = 0.8;
  resolve(given);
  EXPECT_EQ(*given.momentum, 0.8);
  EXPECT_EQ(given.method_name(), "polar+m");
  // Written and read back, a bare one stays bare.
  auto back = stiefel::record::config_from_toml(to_toml(bare), "test");
  resolve(back);
  EXPECT_FALSE(back.momentum);
  Config sgd;
  sgd.optim = "sgd";
  sgd.penalty = "dso";
  sgd.penalty_weight = 1;
  sgd.normalization = "dbn";
  resolve(sgd);
  EXPECT_EQ(*sgd.momentum, 0.9);
  EXPECT_EQ(sgd.method_name(), "sgd+dso+dbn");
}

TEST(PenaltySchedule, ChangesAtItsEpochs) {
  const PenaltySchedule schedule(0.1, "2:1e-3,5:0");
  EXPECT_EQ(schedule.at(0), 0.1);
  EXPECT_EQ(schedule.at(1), 0.1);
  EXPECT_EQ(schedule.at(2), 1e-3);
  EXPECT_EQ(schedule.at(4), 1e-3);
  EXPECT_EQ(schedule.at(100), 0);
  EXPECT_EQ(PenaltySchedule(3, "").at(9), 3);
  EXPECT_EQ(PenaltySchedule(3, "0:4").at(0), 4);
  for (const char* bad : {"3", "3:", ":1", "x:1", "3:y", "3:-1", "-1:2", "3:1,3:2", "3:nan", "3:1,,4:1"}) {
    const auto error = error_of([&] { PenaltySchedule(1, bad); });
    EXPECT_NE(error.find("EPOCH:WEIGHT"), std::string::npos) << bad;
  }
}

TEST(Methods, EveryConstrainedOneKeepsItsWeightsOrthonormalAndMovesThem) {
  for (const auto& method : methods()) {
    for (const bool momentum : {false, true}) {
      if (!method.facts.is_constrained() || (momentum && !method.facts.is_retraction())) continue;
      torch::manual_seed(3);
      Config config;
      config.optim = method.facts.name;
      if (momentum) config.momentum = 0.9;
      resolve(config);
      const auto model = stiefel::models::make_classifier("small", {1, 10, 0});
      auto split = stiefel::split_parameters(*model);
      for (auto& weight : split.manifold) stiefel::init::haar_(weight);
      const auto before = split.manifold[1].detach().clone();
      const auto optimizers = method.make(split, config);
      for (int step = 0; step < 3; ++step) {
        for (auto& optimizer : optimizers) optimizer->zero_grad();
        model->forward(torch::randn({8, 1, 32, 32})).square().mean().backward();
        for (auto& optimizer : optimizers) optimizer->step();
      }
      const auto what = config.method_name();
      for (const auto& weight : measure_orthonormality(*model, config))
        EXPECT_LT(weight.defect, std::max(3e-5, method.facts.defect_bound)) << what;
      EXPECT_EQ(measure_orthonormality(*model, config).size(), split.manifold.size()) << what;
      EXPECT_GT((split.manifold[1] - before).norm().item<double>(), 1e-4) << what;
      // Bare retractions keep no momentum.
      const auto& state = optimizers.front()->state();
      size_t buffers = 0;
      for (const auto& entry : state) {
        const auto* kept = dynamic_cast<const stiefel::MomentumParamState*>(entry.second.get());
        buffers += kept != nullptr && kept->momentum_buffer.defined();
      }
      if (method.facts.is_retraction()) {
        EXPECT_EQ(buffers, momentum ? split.manifold.size() : 0u) << what;
      }
    }
  }
}

TEST(Methods, AConfigThatSelectsOneIsNamedForIt) {
  const auto selected = [](const std::string& name) {
    Config config;
    select_method(config, name);
    if (config.has_penalty()) config.penalty_weight = 1;
    resolve(config);
    return config.method_name();
  };
  for (const auto& facts : stiefel::record::method_facts()) {
    EXPECT_EQ(selected(facts.name), facts.is_optimizer() ? facts.name : "sgd+" + facts.name);
    if (facts.is_retraction()) {
      EXPECT_EQ(selected(facts.name + "+m"), facts.name + "+m");
    }
  }
  for (const char* bad : {"sgd+m", "so+m", "no such", "+m", ""}) {
    EXPECT_THROW(selected(bad), std::invalid_argument) << bad;
  }
}

TEST(Methods, DecayReachesNormalizationOnlyWhereAskedFor) {
  for (const char* name : {"sgd", "adam", "adamw", "muon", "cayley-sgd", "cayley-adam", "cayley-muon"}) {
    for (const bool all : {false, true}) {
      Config config;
      config.optim = name;
      config.decay_all = all;
      resolve(config);
      const auto model = stiefel::models::make_classifier("small", {1, 10, 0});
      auto split = stiefel::split_parameters(*model);
      for (auto& weight : split.manifold) stiefel::init::haar_(weight);
      std::vector<at::Tensor> before;
      for (auto& parameter : split.euclidean) {
        parameter.mutable_grad() = torch::zeros_like(parameter);
        before.push_back(parameter.detach().clone());
      }
      const auto optimizers = find_method(name).make(split, config);
      optimizers.back()->step();
      for (size_t i = 0; i < before.size(); ++i) {
        const bool nothing_there = before[i].abs().max().item<double>() == 0;  // biases start at 0
        if (nothing_there) continue;
        const double left = split.euclidean[i].abs().sum().item<double>();
        EXPECT_EQ(left < before[i].abs().sum().item<double>(), before[i].dim() >= 2 || all)
            << name << ", decay-all " << all << ", " << before[i].sizes();
      }
    }
  }
}

TEST(Methods, MuonMovesAlongThePolarFactor) {
  // One step from rest by its formula, with LAPACK's singular vectors.
  Config config;
  config.optim = "muon";
  config.weight_decay = 0.5;
  config.root_rounds = 5;
  config.lr_manifold = 0.1;
  resolve(config);
  EXPECT_EQ(config.schedule, "cosine");
  for (const auto& shape : {std::vector<int64_t>{6, 5, 2, 2}, {12, 3}}) {
    const auto weight = torch::randn(shape, at::kDouble).requires_grad_();
    const auto before = weight.detach().clone();
    weight.mutable_grad() = torch::randn(shape, at::kDouble) * 1e-3;
    const auto rows = weight.grad().reshape({shape[0], -1});
    const auto [u, s, vh] = at::linalg_svd(rows, false);
    const double scale = std::sqrt(std::max(1.0, static_cast<double>(shape[0]) / rows.size(1)));
    const auto free = torch::randn({3}, at::kDouble).requires_grad_();
    const auto optimizers = find_method("muon").make({{weight}, {free}, {"weight"}, {"free"}}, config);
    optimizers.front()->step();
    const auto moved = (before * (1 - 0.1 * 0.5) - weight.detach()).reshape({shape[0], -1}) / (0.1 * scale);
    EXPECT_LT((moved - u.mm(vh)).abs().max().item<double>(), 0.15);
    EXPECT_LT((at::linalg_svdvals(moved) - 1).abs().max().item<double>(), 0.15 + 1e-9);
  }
}

TEST(Message, ComesWithoutAddressesAndWithoutTheLibrarysName) {
  const auto told = [](const std::function<void()>& act) -> std::string {
    try {
      act();
    } catch (const std::exception& error) {
      return message_of(error);
    }
    return "";
  };
  EXPECT_EQ(told([] { TORCH_CHECK(false, "stiefel: no matrix"); }), "no matrix");
  EXPECT_EQ(told([] { throw std::runtime_error("no stiefel: here"); }), "no stiefel: here");
}

}  // namespace train_test
