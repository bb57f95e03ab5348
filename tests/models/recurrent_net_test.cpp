#include "models/recurrent_net.h"

#include <cmath>
#include <map>

#include "tests/support.h"

// The recurrent networks: what they hold, what they compute, and that they learn on the manifold.

namespace recurrent_net_test {

using at::Tensor;
using stiefel::models::is_recurrent;
using stiefel::models::make_recurrent;
using stiefel::models::RecurrentNet;

const std::vector<std::string> kKinds = {"urnn", "ornn", "rnn"};

std::map<std::string, Tensor> parameters_of(const RecurrentNet& net) {
  std::map<std::string, Tensor> all;
  for (const auto& item : net.named_parameters()) all[item.key()] = item.value();
  return all;
}

double largest(const Tensor& t) { return t.detach().abs().max().item<double>(); }

/// The network's formula, a step after the other: U and c applied to [Re h, Im h], unit by unit.
Tensor plain_scores(const RecurrentNet& net, const std::string& kind, const Tensor& sequences) {
  const at::NoGradGuard no_grad;
  const auto at_name = parameters_of(net);
  const bool complex = kind == "urnn";
  const auto number = [&](const Tensor& t) { return complex ? at::view_as_complex(t) : t; };
  const auto k = at_name.at("recurrent"), v = number(at_name.at("input")), b = at_name.at("bias");
  std::vector<Tensor> rows;
  for (const auto& sequence : sequences.unbind(0)) {
    auto h = number(at_name.at("first"));
    std::vector<Tensor> scores;
    for (const auto& x : sequence.unbind(0)) {
      const auto z = k.matmul(h) + v.matmul(x.to(v.scalar_type()));
      const auto modulus = (z.abs().square() + 1e-5).sqrt();
      h = kind == "rnn" ? (z + b).tanh() : z * ((modulus + b).relu() / modulus);
      const auto reals = complex ? at::view_as_real(h).reshape(-1) : h;
      scores.push_back(at_name.at("output").matmul(reals) + at_name.at("output_bias"));
    }
    rows.push_back(at::stack(scores));
  }
  return at::stack(rows);
}

TEST(RecurrentNet, HoldsWhatItsKindAsks) {
  for (const auto& kind : kKinds) {
    const auto net = make_recurrent(kind + "-5", {3, 4, false});
    const auto all = parameters_of(*net);
    const bool complex = kind == "urnn";
    EXPECT_EQ(all.size(), 6U);
    EXPECT_EQ(all.at("recurrent").sizes(), at::IntArrayRef({5, 5}));
    EXPECT_EQ(all.at("recurrent").scalar_type(), complex ? at::kComplexFloat : at::kFloat);
    EXPECT_EQ(all.at("input").sizes(), complex ? at::IntArrayRef({5, 3, 2}) : at::IntArrayRef({5, 3}));
    EXPECT_EQ(all.at("bias").sizes(), at::IntArrayRef({5}));
    EXPECT_EQ(all.at("first").sizes(), complex ? at::IntArrayRef({5, 2}) : at::IntArrayRef({5}));
    EXPECT_EQ(all.at("output").sizes(), complex ? at::IntArrayRef({4, 10}) : at::IntArrayRef({4, 5}));
    EXPECT_EQ(all.at("output_bias").sizes(), at::IntArrayRef({4}));
    EXPECT_TRUE(net->recurrent_weight().is_same(all.at("recurrent")));
    for (const auto& [name, value] : all) {
      EXPECT_TRUE(value.requires_grad()) << name;
      EXPECT_EQ(value.is_complex(), complex && name == "recurrent") << name;
    }
  }
}

TEST(RecurrentNet, ComputesItsFormula) {
  for (const auto& kind : kKinds) {
    for (const bool every_step : {false, true}) {
      const auto net = make_recurrent(kind + "-5", {3, 4, every_step});
      {
        const at::NoGradGuard no_grad;
        parameters_of(*net).at("output_bias").uniform_(-1, 1);
        parameters_of(*net).at("bias").uniform_(-0.3, 0.3);
      }
      const auto sequences = torch::randn({2, 7, 3});
      const auto scores = net->forward(sequences);
      const auto wanted = plain_scores(*net, kind, sequences);
      ASSERT_EQ(scores.sizes(), every_step ? at::IntArrayRef({2, 7, 4}) : at::IntArrayRef({2, 4}));
      EXPECT_LT(support::distance(scores, every_step ? wanted : wanted.select(1, 6)), 1e-5) << kind;
    }
  }
}

/// Within the published bounds, and not far within them.
TEST(RecurrentNet, StartsAsPublished) {
  const double n = 60;
  const auto expect_bound = [](const Tensor& t, double bound) {
    EXPECT_LE(largest(t), bound * (1 + 1e-6));
    EXPECT_GT(largest(t), 0.8 * bound);
    EXPECT_LT(t.min().item<double>(), 0);
  };
  for (const auto& kind : kKinds) {
    const auto net = make_recurrent(kind + "-60", {3, 4, false});
    const auto all = parameters_of(*net);
    const double units = kind == "urnn" ? 2 * n : n;
    expect_bound(all.at("first"), std::sqrt(3 / (2 * n)));
    expect_bound(all.at("input"), std::sqrt(6 / (3 + units)));
    expect_bound(all.at("output"), std::sqrt(6 / (4 + units)));
    EXPECT_EQ(largest(all.at("output_bias")), 0);
    if (kind == "rnn") {
      expect_bound(all.at("recurrent"), 1 / std::sqrt(n));
      EXPECT_EQ(largest(all.at("bias")), 0);
    } else {
      expect_bound(all.at("bias"), 0.01);
      const auto k = all.at("recurrent").detach().to(kind == "urnn" ? at::kComplexDouble : at::kDouble);
      EXPECT_LT((k.mH().mm(k) - torch::eye(60, k.options())).norm().item<double>(), 1e-5);
    }
  }
}

TEST(RecurrentNet, PutsJustItsRecurrentWeightOnTheManifold) {
  for (const auto& kind : kKinds) {
    const auto net = make_recurrent(kind + "-9", {3, 4, false});
    const auto split = net->split();
    const bool held = kind != "rnn";
    EXPECT_EQ(split.manifold_names,
              held ? std::vector<std::string>{"recurrent"} : std::vector<std::string>{});
    EXPECT_EQ(split.manifold.size(), held ? 1U : 0U);
    EXPECT_EQ(split.euclidean.size(), held ? 5U : 6U);
    const auto before = net->recurrent_weight().detach().clone();
    net->place_on_manifold();
    if (held) {
      EXPECT_GT(support::distance(before, net->recurrent_weight()), 0.01);
      EXPECT_LT(support::defect(net->recurrent_weight()), 1e-5);
    } else {
      EXPECT_TRUE(at::equal(before, net->recurrent_weight().detach()));
    }
  }
}

/// With no bias and no input h_t = K h_{t−1}: 200 steps forth and the gradient's 200 steps back keep their
/// length. The read-out is made to show the state.
TEST(RecurrentNet, KeepsTheLengthOfItsState) {
  for (const std::string kind : {"urnn", "ornn"}) {
    const int64_t n = 24, reals = kind == "urnn" ? 2 * n : n;
    const auto net = make_recurrent(kind + "-24", {1, reals, true});
    const auto all = parameters_of(*net);
    {
      const at::NoGradGuard no_grad;
      all.at("bias").zero_();
      all.at("output").copy_(torch::eye(reals));
    }
    const auto states = net->forward(torch::zeros({1, 200, 1}));
    const double length = all.at("first").norm().item<double>();
    const auto lengths = states.detach().norm(2, -1);
    EXPECT_LT((lengths - length).abs().max().item<double>(), 1e-4 * length);
    EXPECT_GT(support::distance(states.select(1, 0), states.select(1, 199)), 0.01);
    const auto weights = torch::randn({reals});
    (states.select(1, 199) * weights).sum().backward();
    const double expected = weights.norm().item<double>();
    EXPECT_NEAR(all.at("first").grad().norm().item<double>(), expected, 1e-4 * expected);
  }
}

TEST(RecurrentNet, IsBuiltByItsName) {
  for (const std::string name : {"urnn-116", "ornn-1", "rnn-512"}) EXPECT_TRUE(is_recurrent(name)) << name;
  EXPECT_EQ(make_recurrent("ornn-12", {})->recurrent_weight().size(0), 12);
  for (const std::string name : {"", "urnn", "urnn-", "urnn-0", "urnn-007", "urnn--5", "urnn-5x", "xrnn-5",
                                 "uornn-5", "Urnn-5", "urnn-1234567", "wrn-28-10", " urnn-5"}) {
    EXPECT_FALSE(is_recurrent(name)) << name;
    try {
      make_recurrent(name, {});
      ADD_FAILURE() << name << " was built";
    } catch (const std::invalid_argument& error) {
      const std::string message = error.what();
      EXPECT_NE(message.find("'" + name + "'"), std::string::npos) << message;
      EXPECT_NE(message.find("urnn-116"), std::string::npos) << message;
    }
  }
}

TEST(RecurrentNet, LearnsAndStaysOnTheManifold) {
  for (const std::string kind : {"urnn", "ornn"}) {
    for (const bool every_step : {false, true}) {
      torch::manual_seed(4);
      const auto net = make_recurrent(kind + "-16", {2, 3, every_step});
      const auto split = net->split();
      stiefel::CayleySGD on_manifold(split.manifold, stiefel::CayleySGDOptions(0.1).momentum(0.9));
      torch::optim::SGD rest(split.euclidean, torch::optim::SGDOptions(0.05));
      const auto sequences = torch::randn({8, 20, 2});
      const auto targets = torch::randint(3, every_step ? at::IntArrayRef({160}) : at::IntArrayRef({8}));
      const auto start = net->recurrent_weight().detach().clone();
      const auto loss_now = [&] {
        return at::cross_entropy_loss(net->forward(sequences).reshape({-1, 3}), targets);
      };
      const double first = loss_now().item<double>();
      for (int step = 0; step < 10; ++step) {
        on_manifold.zero_grad();
        rest.zero_grad();
        loss_now().backward();
        on_manifold.step();
        rest.step();
        EXPECT_LT(support::defect(net->recurrent_weight()), 1e-5);
      }
      EXPECT_GT(support::distance(start, net->recurrent_weight()), 1e-3);
      EXPECT_LT(loss_now().item<double>(), 0.9 * first) << kind << every_step;
    }
  }
}

}  // namespace recurrent_net_test
