#include <torch/cuda.h>

#include <cmath>
#include <limits>

#include "models/recurrence.h"
#include "models/recurrence_choice.h"
#include "tests/support.h"

#if STIEFEL_HAS_CUDA
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#endif

// The recurrence on a GPU in float against the CPU's in double, from the states to every gradient. Without a
// GPU everything here is skipped.

namespace recurrence_test {

using at::Tensor;
using stiefel::models::Activation;
using stiefel::models::Recurrence;
using stiefel::models::RecurrenceKernel;
using stiefel::models::RecurrenceKernelGuard;
using stiefel::models::unroll;

constexpr auto kTanh = Activation::kTanh;
constexpr auto kModRelu = Activation::kModRelu;

struct Case {
  int64_t n, batch, steps, width;
  bool complex = true;
  Activation activation = kModRelu;
  bool all_states = false;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
  return out << (c.complex ? "complex" : "real") << (c.activation == kTanh ? " tanh" : "") << ", n " << c.n
             << ", batch " << c.batch << ", " << c.steps << " steps, " << c.width << " inputs"
             << (c.all_states ? ", all states" : "");
}

/// A layer, its inputs and what each state counts for in the loss Re Σ c̄h.
struct Drawn {
  Tensor inputs;
  Recurrence layer;
  Tensor weights;
  bool all_states;

  std::vector<Tensor> arguments() const { return {inputs, layer.k, layer.v, layer.b, layer.h0}; }

  /// The same numbers elsewhere, every argument a leaf.
  Drawn to(at::Device device, at::ScalarType real) const {
    const auto type = [&](const Tensor& t) { return t.is_complex() ? c10::toComplexType(real) : real; };
    const auto leaf = [&](const Tensor& t) {
      return t.detach().to(device, type(t)).clone().requires_grad_(true);
    };
    return {leaf(inputs),
            {leaf(layer.k), leaf(layer.v), leaf(layer.b), leaf(layer.h0), layer.activation},
            leaf(weights).detach(),
            all_states};
  }
};

const std::vector<std::string> kNames = {"inputs", "K", "V", "b", "h0", "states"};

/// In double on the CPU, of numbers that float holds exactly. K is unitary, so that many steps stay
/// comparable.
Drawn draw(const Case& c) {
  const auto type = c.complex ? at::kComplexDouble : at::kDouble;
  const auto states =
      c.all_states ? std::vector<int64_t>{c.steps, c.batch, c.n} : std::vector<int64_t>{c.batch, c.n};
  const Recurrence layer{support::point({c.n, c.n}, type).detach(), torch::randn({c.n, c.width}, type) * 0.7,
                         torch::rand({c.n}, at::kDouble) * 0.12 - 0.1,
                         torch::randn({c.n}, type) / std::sqrt(static_cast<double>(c.n)), c.activation};
  const Drawn drawn{torch::randn({c.steps, c.batch, c.width}, at::kDouble), layer,
                    torch::randn(states, type) * 1e-3, c.all_states};
  return drawn.to(at::kCPU, at::kFloat).to(at::kCPU, at::kDouble);
}

/// Memory that is handed out next holds NaNs.
void poison(const at::Device& device) {
  for (const int64_t count : {1 << 12, 1 << 16, 1 << 20, 1 << 24})
    at::full({count}, std::numeric_limits<float>::quiet_NaN(), at::TensorOptions(at::kFloat).device(device));
}

/// The gradients of all arguments, and the states.
std::vector<Tensor> results(const Drawn& drawn) {
  poison(drawn.inputs.device());
  const auto states = unroll(drawn.inputs, drawn.layer, drawn.all_states);
  const auto sum = (drawn.weights.conj() * states).sum();
  auto all = torch::autograd::grad({sum.is_complex() ? at::real(sum) : sum}, drawn.arguments());
  all.push_back(states.detach());
  return all;
}

double relative(const Tensor& got, const Tensor& wanted) {
  const auto difference = got.detach().cpu().to(wanted.scalar_type()) - wanted.detach();
  return (difference.norm() / wanted.detach().norm().clamp_min(1e-30)).item<double>();
}

/// A NaN fails too.
void expect_near(const std::vector<Tensor>& got, const std::vector<Tensor>& wanted, double tolerance) {
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].sizes(), wanted[i].sizes()) << kNames[i];
    EXPECT_LE(relative(got[i], wanted[i]), tolerance) << kNames[i];
  }
}

class CudaRecurrence : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no CUDA device";
    torch::manual_seed(11);
  }
};

/// Sizes on both sides of every kernel's bounds, and past them all. What takes 129 to 512 units depends on
/// the card.
TEST_F(CudaRecurrence, EqualsTheCpuInDouble) {
  std::vector<Case> cases;
  for (const int64_t n : {1, 5, 32, 33, 64, 116, 128, 129, 200, 256, 257, 512, 520, 1023, 1024, 1025}) {
    const int64_t steps = n > 256 ? 6 : 30;
    cases.push_back({n, 3, steps, 1});
    cases.push_back({n, 17, steps, 3, true, kModRelu, true});
    cases.push_back({n, 9, steps, 1, false, kModRelu, true});
    cases.push_back({n, 1, steps, 2, false, kTanh});
    cases.push_back({n, 8, 1, 1, true, kModRelu, true});
    cases.push_back({n, 2, 2, 1, false, kTanh, true});
  }
  cases.push_back({116, 150, 20, 1});
  cases.push_back({300, 130, 4, 1});
  for (const auto& c : cases) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto drawn = draw(c);
    expect_near(results(drawn.to(at::kCUDA, at::kFloat)), results(drawn), 1e-4);
  }
}

TEST_F(CudaRecurrence, TakesManySteps) {
  for (const auto& c :
       {Case{116, 4, 784, 1}, Case{200, 4, 784, 1}, Case{32, 4, 784, 1, false, kModRelu, true}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto drawn = draw(c);
    expect_near(results(drawn.to(at::kCUDA, at::kFloat)), results(drawn), 1e-3);
  }
}

TEST_F(CudaRecurrence, RepeatsBitForBit) {
  for (const auto& c : {Case{116, 140, 40, 1}, Case{300, 140, 40, 2},
                        Case{200, 20, 40, 1, false, kTanh, true}, Case{600, 30, 20, 1}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto drawn = draw(c).to(at::kCUDA, at::kFloat);
    const auto one = results(drawn), two = results(drawn);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], two[i])) << kNames[i];
  }
}

TEST_F(CudaRecurrence, CountsInDoubleWhereItIsAskedTo) {
  const auto drawn = draw({20, 5, 12, 1});
  expect_near(results(drawn.to(at::kCUDA, at::kDouble)), results(drawn), 1e-11);
}

/// A row's numbers may be of any size beside another's: each counts on its own scale.
TEST_F(CudaRecurrence, IsAsExactInSmallRowsAsInLarge) {
  for (const int64_t n : {40, 160, 300, 600}) {
    auto drawn = draw({n, 9, 6, 1});
    const at::NoGradGuard no_grad;
    const auto size = at::pow(10.0, at::arange(-8, 10, 2, at::kDouble));
    drawn.inputs.mul_(size.view({1, -1, 1}));
    drawn.layer.h0.zero_();
    drawn.layer.b.zero_();
    const auto here = drawn.to(at::kCUDA, at::kFloat);
    const auto got = unroll(here.inputs, here.layer).cpu().to(at::kComplexDouble);
    const auto wanted = unroll(drawn.inputs, drawn.layer);
    const auto error = (got - wanted).norm(2, 1) / wanted.norm(2, 1);
    EXPECT_LE(error.max().item<double>(), 1e-5) << n << ": " << error;
  }
}

TEST_F(CudaRecurrence, KeepsABadRowToItself) {
  for (const int64_t n : {40, 160, 300, 600}) {
    auto drawn = draw({n, 11, 7, 1}).to(at::kCUDA, at::kFloat);
    const at::NoGradGuard no_grad;
    const auto before = unroll(drawn.inputs, drawn.layer);
    drawn.inputs.select(0, 2).select(0, 4).fill_(std::numeric_limits<float>::quiet_NaN());
    const auto after = unroll(drawn.inputs, drawn.layer);
    for (int64_t row = 0; row < 11; ++row) {
      if (row == 4) {
        EXPECT_TRUE(at::view_as_real(after[row]).isnan().all().item<bool>()) << n;
      } else {
        EXPECT_TRUE(at::equal(after[row], before[row])) << n << ", row " << row;
      }
    }
  }
}

TEST_F(CudaRecurrence, GivesNothingWhereAllUnitsAreOff) {
  for (const int64_t n : {40, 160, 300, 600}) {
    const auto drawn = draw({n, 3, 6, 2, true, kModRelu, true}).to(at::kCUDA, at::kFloat);
    {
      const at::NoGradGuard no_grad;
      drawn.layer.b.fill_(-100);
    }
    for (const auto& result : results(drawn)) EXPECT_EQ(result.abs().max().item<double>(), 0) << n;
  }
}

/// A transposed K, a lazily conjugated h₀, inputs with the batch first in memory, a gradient that is one
/// number expanded.
TEST_F(CudaRecurrence, TakesAnyLayout) {
  for (const int64_t n : {24, 150}) {
    auto drawn = draw({n, 5, 6, 2, true, kModRelu, true});
    auto here = drawn.to(at::kCUDA, at::kFloat);
    const auto leaf = [](const Tensor& t) { return t.detach().requires_grad_(true); };
    for (auto* one : {&drawn, &here}) {
      one->layer.k = leaf(one->layer.k.detach().t());
      one->layer.h0 = leaf(one->layer.h0.detach().conj());
      one->inputs = leaf(one->inputs.detach().transpose(0, 1).contiguous().transpose(0, 1));
      one->weights = torch::ones({}, one->weights.options()).expand_as(one->weights);
    }
    expect_near(results(here), results(drawn), 1e-4);
  }
}

#if STIEFEL_HAS_CUDA
/// Every kernel where it is not the first choice, too: at a size that several take, each has the result. The
/// batches give the stream kernel blocks of two, four, six and eight rows on a card of 132 multiprocessors.
TEST_F(CudaRecurrence, HasOneResultWithEveryKernel) {
  for (const auto& c :
       {Case{64, 3, 12, 1}, Case{116, 9, 12, 2, true, kModRelu, true}, Case{128, 17, 12, 1, false, kTanh},
        Case{129, 3, 12, 1}, Case{200, 130, 8, 1, true, kModRelu, true}, Case{257, 5, 8, 3, false},
        Case{300, 140, 5, 1}, Case{300, 17, 5, 2, false, kTanh, true}, Case{512, 9, 4, 1},
        Case{200, 1056, 3, 1}, Case{150, 1200, 3, 1, false, kModRelu, true}}) {
    const auto drawn = draw(c);
    const auto here = drawn.to(at::kCUDA, at::kFloat);
    const auto wanted = results(drawn);
    bool has_stream = false;
    for (const auto kernel : {RecurrenceKernel::kRow, RecurrenceKernel::kCluster, RecurrenceKernel::kStream,
                              RecurrenceKernel::kOperators}) {
      SCOPED_TRACE(::testing::PrintToString(c) + ", kernel " +
                   stiefel::models::recurrence_kernel_names()[static_cast<size_t>(kernel)]);
      const RecurrenceKernelGuard guard(kernel);
      std::vector<Tensor> got;
      try {
        got = results(here);
      } catch (const c10::Error& error) {
        ASSERT_NE(std::string(error.what()).find("this GPU has no"), std::string::npos) << error.what();
        continue;
      }
      has_stream = has_stream || kernel == RecurrenceKernel::kStream;
      expect_near(got, wanted, 1e-4);
    }
    EXPECT_TRUE(has_stream);
  }
}

TEST_F(CudaRecurrence, StreamsThroughManySteps) {
  const RecurrenceKernelGuard guard(RecurrenceKernel::kStream);
  for (const auto& c : {Case{200, 4, 784, 1}, Case{512, 2, 300, 1}}) {
    SCOPED_TRACE(::testing::PrintToString(c));
    const auto drawn = draw(c);
    const auto here = drawn.to(at::kCUDA, at::kFloat);
    const auto one = results(here), two = results(here);
    expect_near(one, results(drawn), 1e-3);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_TRUE(at::equal(one[i], two[i])) << kNames[i];
  }
}

/// K begins in the middle of 16 bytes, so that its rows do too.
TEST_F(CudaRecurrence, StreamsAMatrixThatIsNotAligned) {
  const RecurrenceKernelGuard guard(RecurrenceKernel::kStream);
  for (const bool complex : {true, false}) {
    const auto drawn = draw({160, 5, 6, 1, complex});
    auto here = drawn.to(at::kCUDA, at::kFloat);
    auto memory = at::empty({160 * 160 + 1}, here.layer.k.options());
    auto moved = memory.narrow(0, 1, 160 * 160).view({160, 160});
    moved.copy_(here.layer.k.detach());
    here.layer.k = moved.detach().requires_grad_(true);
    expect_near(results(here), results(drawn), 1e-4);
  }
}

TEST_F(CudaRecurrence, NamesAKernelThatDoesNotFit) {
  const RecurrenceKernelGuard guard(RecurrenceKernel::kRow);
  const auto drawn = draw({300, 2, 2, 1}).to(at::kCUDA, at::kFloat);
  try {
    unroll(drawn.inputs, drawn.layer);
    FAIL() << "took it";
  } catch (const c10::Error& error) {
    EXPECT_NE(std::string(error.what()).find("no row kernel for a recurrence of 300 units"),
              std::string::npos)
        << error.what();
  }
}

/// What a graph recorded answers for the numbers that lie in its memory when it is replayed.
TEST_F(CudaRecurrence, RunsInAGraph) {
  for (const int64_t n : {116, 300, 600}) {
    const auto drawn = draw({n, 20, 12, 1}).to(at::kCUDA, at::kFloat);
    const auto side = at::cuda::getStreamFromPool();
    const c10::cuda::CUDAStreamGuard guard(side);
    results(drawn);  // to warm up
    const auto step = [&] {
      const auto states = unroll(drawn.inputs, drawn.layer, false);
      auto all = torch::autograd::grad({at::real((drawn.weights.conj() * states).sum())}, drawn.arguments());
      all.push_back(states.detach());
      return all;
    };
    at::cuda::CUDAGraph graph;
    graph.capture_begin();
    const auto recorded = step();
    graph.capture_end();
    {
      const at::NoGradGuard no_grad;
      drawn.inputs.mul_(0.5);
    }
    graph.replay();
    const auto wanted = step();
    side.synchronize();
    for (size_t i = 0; i < wanted.size(); ++i) EXPECT_TRUE(at::equal(recorded[i], wanted[i])) << kNames[i];
  }
}
#endif

}  // namespace recurrence_test
