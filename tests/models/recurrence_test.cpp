#include "models/recurrence.h"

#include <cmath>

#include "models/recurrence_steps.h"
#include "tests/support.h"

// The hand-derived passes of the recurrence against a plain loop under autograd and against finite
// differences.

namespace recurrence_test {

using at::Tensor;
using stiefel::models::Activation;
using stiefel::models::Recurrence;
using stiefel::models::unroll;
namespace detail = stiefel::models::detail;

/// A layer, its inputs and what each state counts for in the loss Re Σ c̄h.
struct Case {
  std::string name;
  int64_t n, batch, steps, width;
  bool complex = false;
  Activation activation = Activation::kModRelu;
  bool all_states = false;
  bool one_hot = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

struct Drawn {
  Tensor inputs;
  Recurrence layer;
  Tensor weights;
  bool all_states;

  std::vector<Tensor> arguments() const { return {inputs, layer.k, layer.v, layer.b, layer.h0}; }
};

const std::vector<std::string> kNames = {"inputs", "K", "V", "b", "h0"};

/// K is no rotation, so that nothing hides behind one, but its powers neither grow nor vanish; the biases
/// leave some units on and put others off.
Drawn draw(const Case& c) {
  const auto type = c.complex ? at::kComplexDouble : at::kDouble;
  auto inputs = c.one_hot ? at::one_hot(torch::randint(c.width, {c.steps, c.batch}), c.width).to(at::kDouble)
                          : torch::randn({c.steps, c.batch, c.width}, at::kDouble);
  const auto noise = torch::randn({c.n, c.n}, type) * (0.2 / std::sqrt(static_cast<double>(c.n)));
  const auto k = support::point({c.n, c.n}, type).detach() + noise;
  const auto weights = torch::randn(
      c.all_states ? at::IntArrayRef({c.steps, c.batch, c.n}) : at::IntArrayRef({c.batch, c.n}), type);
  const Recurrence layer{k, torch::randn({c.n, c.width}, type) * 0.7, torch::rand({c.n}, at::kDouble) - 0.5,
                         torch::randn({c.n}, type), c.activation};
  Drawn drawn{inputs, layer, weights, c.all_states};
  for (auto& argument : drawn.arguments()) argument.requires_grad_(true);
  return drawn;
}

/// h_t = f(Kh_{t−1} + Vx_t, b), a step after the other.
Tensor plain_states(const Tensor& inputs, const Recurrence& layer) {
  auto h = layer.h0.expand({inputs.size(1), layer.h0.size(0)});
  std::vector<Tensor> states;
  for (const auto& x : inputs.unbind(0)) {
    const auto z = h.matmul(layer.k.t()) + x.to(layer.v.scalar_type()).matmul(layer.v.t());
    if (layer.activation == Activation::kTanh) {
      h = (z + layer.b).tanh();
    } else {
      const auto square = z.is_complex() ? at::real(z).square() + at::imag(z).square() : z.square();
      const auto modulus = (square + 1e-5).sqrt();
      h = z * ((modulus + layer.b).relu() / modulus);
    }
    states.push_back(h);
  }
  return at::stack(states);
}

Tensor loss_of(const Tensor& states, const Tensor& weights) {
  const auto sum = (weights.conj() * states).sum();
  return sum.is_complex() ? at::real(sum) : sum;
}

Tensor plain_result(const Drawn& drawn) {
  const auto all = plain_states(drawn.inputs, drawn.layer);
  return drawn.all_states ? all : all[-1];
}

std::vector<Tensor> gradients(const Tensor& states, const Drawn& drawn) {
  return torch::autograd::grad({loss_of(states, drawn.weights)}, drawn.arguments());
}

Tensor run(const Drawn& drawn) { return unroll(drawn.inputs, drawn.layer, drawn.all_states); }

void expect_near(const Tensor& got, const Tensor& wanted, double tolerance, const std::string& what) {
  ASSERT_EQ(got.sizes(), wanted.sizes()) << what;
  ASSERT_EQ(got.is_complex(), wanted.is_complex()) << what;
  const double size = std::max(1.0, wanted.detach().abs().max().item<double>());
  // A NaN fails too.
  EXPECT_LE(support::distance(got.to(wanted.scalar_type()), wanted) / size, tolerance) << what;
}

void expect_as_plain(const Drawn& drawn, double tolerance = 1e-12) {
  std::vector<Tensor> before;
  for (const auto& argument : drawn.arguments()) before.push_back(argument.detach().clone());
  const auto states = run(drawn);
  const auto got = gradients(states, drawn);
  for (size_t i = 0; i < before.size(); ++i) {
    ASSERT_TRUE(at::equal(before[i], drawn.arguments()[i].detach())) << kNames[i] << " was written to";
  }
  const auto plain = plain_result(drawn);
  const auto wanted = gradients(plain, drawn);
  expect_near(states, plain, tolerance, "states");
  for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], wanted[i], tolerance, kNames[i]);
}

class Unroll : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override { torch::manual_seed(1); }
};

TEST_P(Unroll, EqualsThePlainLoop) { expect_as_plain(draw(GetParam())); }

/// Shares of 3, 3 and 1 rows; the same bits every time.
TEST_P(Unroll, AgreesOverThreads) {
  const auto drawn = draw(GetParam());
  const auto with = [&](int threads) {
    at::set_num_threads(threads);
    auto all = gradients(run(drawn), drawn);
    all.push_back(run(drawn).detach());
    return all;
  };
  const int before = at::get_num_threads();
  const auto one = with(1), three = with(3), again = with(3);
  at::set_num_threads(before);
  for (size_t i = 0; i < one.size(); ++i) {
    expect_near(three[i], one[i], 1e-12, std::to_string(i));
    EXPECT_TRUE(at::equal(three[i], again[i])) << i;
  }
}

TEST_P(Unroll, HasOneResultOnEveryPath) {
  const auto drawn = draw(GetParam());
  const at::NoGradGuard no_grad;
  const auto& layer = drawn.layer;
  const bool all = drawn.all_states;
  const auto cpu = detail::forward_cpu(drawn.inputs, layer, all);
  const auto any = detail::forward_any(drawn.inputs, layer, all);
  expect_near(any.z, cpu.z, 1e-12, "z");
  expect_near(any.states, cpu.states, 1e-12, "states");
  const auto back_cpu = detail::backward_cpu(drawn.inputs, layer, cpu.z, drawn.weights, all, true);
  const auto back_any = detail::backward_any(drawn.inputs, layer, cpu.z, drawn.weights, all, true);
  expect_near(back_any.inputs, back_cpu.inputs, 1e-12, "inputs");
  expect_near(back_any.k, back_cpu.k, 1e-12, "K");
  expect_near(back_any.v, back_cpu.v, 1e-12, "V");
  expect_near(back_any.b, back_cpu.b, 1e-12, "b");
  expect_near(back_any.h0, back_cpu.h0, 1e-12, "h0");
  for (const auto pass : {detail::backward_cpu, detail::backward_any}) {
    EXPECT_FALSE(pass(drawn.inputs, layer, cpu.z, drawn.weights, all, false).inputs.defined());
  }
}

TEST_P(Unroll, IsWithinFloatRoundingInFloat) {
  const auto drawn = draw(GetParam());
  const auto narrow = [](const Tensor& t) {
    return t.detach().to(t.is_complex() ? at::kComplexFloat : at::kFloat).requires_grad_(true);
  };
  const auto& layer = drawn.layer;
  const Drawn small{narrow(drawn.inputs),
                    {narrow(layer.k), narrow(layer.v), narrow(layer.b), narrow(layer.h0), layer.activation},
                    narrow(drawn.weights).detach(),
                    drawn.all_states};
  const auto states = run(small);
  EXPECT_EQ(states.scalar_type(), small.layer.k.scalar_type());
  expect_near(states, plain_result(drawn), 1e-4, "states");
  const auto got = gradients(states, small);
  const auto wanted = gradients(plain_result(drawn), drawn);
  for (size_t i = 0; i < got.size(); ++i) expect_near(got[i], wanted[i], 1e-4, kNames[i]);
}

constexpr auto kTanh = Activation::kTanh;
constexpr auto kModRelu = Activation::kModRelu;

INSTANTIATE_TEST_SUITE_P(
    Cases, Unroll,
    ::testing::Values(Case{"Real", 5, 7, 9, 1}, Case{"RealAllStates", 6, 7, 9, 3, false, kModRelu, true},
                      Case{"Complex", 5, 7, 9, 1, true}, Case{"ComplexWide", 4, 7, 9, 3, true},
                      Case{"ComplexAllStates", 6, 7, 9, 3, true, kModRelu, true},
                      Case{"ComplexOneHot", 5, 7, 9, 4, true, kModRelu, true, true},
                      Case{"RealOneHot", 5, 7, 9, 4, false, kModRelu, false, true},
                      Case{"Tanh", 5, 7, 9, 1, false, kTanh},
                      Case{"TanhAllStates", 5, 7, 9, 3, false, kTanh, true}, Case{"OneRow", 5, 1, 9, 2, true},
                      Case{"OneRowReal", 5, 1, 9, 1},
                      Case{"OneRowAllStates", 5, 1, 9, 2, true, kModRelu, true},
                      Case{"OneStep", 5, 4, 1, 2, true}, Case{"OneStepReal", 5, 4, 1, 1},
                      Case{"OneStepAllStates", 5, 4, 1, 2, true, kModRelu, true},
                      Case{"OneOfAll", 1, 1, 1, 1}, Case{"OneOfAllComplex", 1, 1, 1, 1, true}),
    [](const auto& named) { return named.param.name; });

/// The gathered δ fill several times over and leave a rest, fit exactly, or hold one step only. K shrinks and
/// no bias is positive, which makes a unit steep at 0, or 130 steps would blow up the rounding.
TEST(Recurrence, GathersAnyNumberOfSteps) {
  torch::manual_seed(2);
  for (const Case& c : {Case{"", 64, 40, 130, 2}, Case{"", 64, 40, 130, 1, true, kModRelu, true},
                        Case{"", 64, 64, 64, 1, false, kTanh}, Case{"", 1, (1 << 17) + 1, 3, 1}}) {
    const auto drawn = draw(c);
    drawn.layer.k.detach().mul_(0.9);
    drawn.layer.b.detach().sub_(0.5).mul_(0.2);
    expect_as_plain(drawn, 1e-11);
  }
}

/// (L(p + ε) − L(p − ε))/2ε for every number of every argument, real and imaginary parts apart. No unit is so
/// near its threshold that ε takes it across.
TEST(Recurrence, HasTheSlopeOfFiniteDifferences) {
  for (const Case& c : {Case{"", 3, 2, 5, 2, false, kModRelu}, Case{"", 3, 2, 5, 2, true, kModRelu, true},
                        Case{"", 3, 2, 5, 1, true, kModRelu}, Case{"", 3, 2, 5, 2, false, kTanh, true}}) {
    torch::manual_seed(3);
    const auto drawn = draw(c);
    const auto z = detail::forward_cpu(drawn.inputs.detach(), drawn.layer, false).z;
    const auto margin = ((z.abs().square() + 1e-5).sqrt() + drawn.layer.b).abs().min().item<double>();
    ASSERT_GT(margin, 1e-3);
    const auto slopes = gradients(run(drawn), drawn);
    const at::NoGradGuard no_grad;
    for (size_t i = 0; i < slopes.size(); ++i) {
      const auto reals = [](const Tensor& t) { return t.is_complex() ? at::view_as_real(t) : t; };
      auto argument = reals(drawn.arguments()[i].detach()).view(-1);
      const auto slope = reals(slopes[i]).reshape(-1);
      for (int64_t j = 0; j < argument.numel(); ++j) {
        const double kept = argument[j].item<double>(), step = 1e-5;
        const auto loss_at = [&](double value) {
          argument[j] = value;
          return loss_of(run(drawn), drawn.weights).item<double>();
        };
        const double difference = (loss_at(kept + step) - loss_at(kept - step)) / (2 * step);
        argument[j] = kept;
        EXPECT_NEAR(slope[j].item<double>(), difference, 1e-6) << kNames[i] << " " << j;
      }
    }
  }
}

TEST(Recurrence, GivesNothingWhereAllUnitsAreOff) {
  for (const bool complex : {false, true}) {
    const auto drawn = draw({"", 4, 3, 6, 2, complex, kModRelu, true});
    {
      const at::NoGradGuard no_grad;
      drawn.layer.b.fill_(-100);
    }
    const auto states = run(drawn);
    EXPECT_EQ(states.abs().max().item<double>(), 0);
    for (const auto& gradient : gradients(states, drawn)) EXPECT_EQ(gradient.abs().max().item<double>(), 0);
  }
}

/// At z = 0 the root holds 1e-5 alone: f(z) = sz with s = max(0, 1 + b/√1e-5).
TEST(Recurrence, IsSmoothWhereTheInputOfAUnitIsNought) {
  for (const bool complex : {false, true}) {
    for (const double bias : {0.0, 0.1, -0.001, -0.1}) {
      const auto drawn = draw({"", 4, 3, 1, 2, complex});
      {
        const at::NoGradGuard no_grad;
        drawn.inputs.zero_();
        drawn.layer.h0.zero_();
        drawn.layer.b.fill_(bias);
      }
      const auto states = run(drawn);
      EXPECT_EQ(states.abs().max().item<double>(), 0);
      const double s = std::max(0.0, 1 + bias / std::sqrt(1e-5));
      const auto slope_h0 = s * drawn.weights.matmul(drawn.layer.k.conj()).sum(0);
      const auto got = gradients(states, drawn);
      expect_near(got[4], slope_h0, 1e-12, "h0");
      EXPECT_EQ(got[1].abs().max().item<double>(), 0);
      EXPECT_EQ(got[3].abs().max().item<double>(), 0);
      auto several = draw({"", 4, 3, 5, 2, complex, kModRelu, true});
      several.inputs = at::zeros_like(several.inputs).requires_grad_(true);
      several.layer.h0 = at::zeros_like(several.layer.h0).requires_grad_(true);
      several.layer.b = at::full_like(several.layer.b, bias).requires_grad_(true);
      expect_as_plain(several, 1e-11);
    }
  }
}

/// A transposed K and V, lazily conjugated V and h₀, every second number of a longer b, inputs with the batch
/// first in memory, a gradient that is one number expanded.
TEST(Recurrence, TakesAnyLayout) {
  auto drawn = draw({"", 4, 3, 6, 2, true, kModRelu, true});
  const auto leaf = [](const Tensor& t) { return t.detach().requires_grad_(true); };
  drawn.layer.k = leaf(drawn.layer.k.detach().t());
  drawn.layer.v = leaf(torch::randn({2, 4}, at::kComplexDouble).t().conj());
  drawn.layer.b = leaf((torch::rand({8}, at::kDouble) - 0.5).slice(0, 0, 8, 2));
  drawn.layer.h0 = leaf(drawn.layer.h0.detach().conj());
  drawn.inputs = leaf(torch::randn({3, 6, 2}, at::kDouble).transpose(0, 1));
  drawn.weights = torch::ones({}, at::kComplexDouble).expand_as(drawn.weights);
  expect_as_plain(drawn);
  drawn.weights = (drawn.weights * c10::complex<double>(0.3, 0.8)).conj();
  expect_as_plain(drawn);
}

TEST(Recurrence, GivesOnlyTheGradientsThatAreWanted) {
  const auto drawn = draw({"", 4, 3, 6, 2, true});
  const auto wanted = gradients(plain_result(drawn), drawn);
  for (size_t only = 0; only < kNames.size(); ++only) {
    for (const bool without : {false, true}) {
      auto some = drawn;
      const auto fresh = [&](const Tensor& t, size_t i) {
        return t.detach().clone().requires_grad_((i == only) != without);
      };
      some.inputs = fresh(drawn.inputs, 0);
      some.layer = {fresh(drawn.layer.k, 1), fresh(drawn.layer.v, 2), fresh(drawn.layer.b, 3),
                    fresh(drawn.layer.h0, 4), kModRelu};
      loss_of(run(some), some.weights).backward();
      for (size_t i = 0; i < kNames.size(); ++i) {
        const auto argument = some.arguments()[i];
        ASSERT_EQ(argument.grad().defined(), argument.requires_grad()) << kNames[i];
        if (argument.requires_grad()) expect_near(argument.grad(), wanted[i], 1e-12, kNames[i]);
      }
    }
  }
  const at::NoGradGuard no_grad;
  EXPECT_FALSE(run(drawn).requires_grad());
}

TEST(Recurrence, IsDifferentiableOnce) {
  const auto drawn = draw({"", 3, 2, 4, 1, true});
  const auto loss = loss_of(run(drawn), drawn.weights);
  EXPECT_ERROR(torch::autograd::grad({loss}, {drawn.layer.k}, {}, true, /*create_graph=*/true), "once");
}

TEST(Recurrence, SaysWhatIsWrongWithItsArguments) {
  const auto good = draw({"", 4, 3, 5, 2});
  const auto error_of = [&](auto spoil) {
    auto bad = good;
    spoil(bad);
    return support::error_of([&] { run(bad); });
  };
  const auto expect = [&](const std::string& part, auto spoil) {
    const auto message = error_of(spoil);
    EXPECT_NE(message.find("stiefel: "), std::string::npos) << message;
    EXPECT_NE(message.find(part), std::string::npos) << message;
  };
  expect("[5, 2]", [](Drawn& d) { d.inputs = torch::zeros({5, 2}, at::kDouble); });
  expect("[0, 3, 2]", [](Drawn& d) { d.inputs = torch::zeros({0, 3, 2}, at::kDouble); });
  expect("[5, 0, 2]", [](Drawn& d) { d.inputs = torch::zeros({5, 0, 2}, at::kDouble); });
  expect("K must be square; got [4, 3]", [](Drawn& d) { d.layer.k = torch::zeros({4, 3}, at::kDouble); });
  expect("V must be 4×2; got [4, 3]", [](Drawn& d) { d.layer.v = torch::zeros({4, 3}, at::kDouble); });
  expect("[3] and [4]", [](Drawn& d) { d.layer.b = torch::zeros({3}, at::kDouble); });
  expect("[4] and [5]", [](Drawn& d) { d.layer.h0 = torch::zeros({5}, at::kDouble); });
  expect("K must be float, double or complex; got Half",
         [](Drawn& d) { d.layer.k = d.layer.k.to(at::kHalf); });
  expect("Float", [](Drawn& d) { d.inputs = d.inputs.to(at::kFloat); });
  expect("ComplexDouble", [](Drawn& d) { d.layer.v = d.layer.v.to(at::kComplexDouble); });
  expect("Float", [](Drawn& d) { d.layer.h0 = d.layer.h0.to(at::kFloat); });
  expect("Float", [](Drawn& d) { d.layer.b = d.layer.b.to(at::kFloat); });
  expect("tanh is for real networks", [](Drawn& d) {
    d = draw({"", 4, 3, 5, 2, true});
    d.layer.activation = kTanh;
  });
}

}  // namespace recurrence_test
