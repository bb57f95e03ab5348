#include <numeric>
#include <optional>

#include "tests/library/reference.h"
#include "tests/support.h"
#include "tests/thread_ranks.h"

// Steps of matrices that are divided among ranks: they equal those of one process, wherever the cuts are.

namespace sharded_step_test {

using at::Tensor;
using stiefel::CayleyOptions;
using stiefel::MuonTerms;
using stiefel::Sharding;
using support::run_ranks;

enum class Rule { kSgd, kAdam, kMuon, kNesterovMuon };

/// One weight and what its steps remember; of a part of it, the numbers per matrix are those of the whole.
struct Point {
  Tensor x, m, v, k;
};

Point start(at::IntArrayRef shape, at::ScalarType type, bool batched) {
  const auto x = support::point(shape, type, batched).detach();
  const auto numbers = batched ? shape.slice(0, shape.size() - 2).vec() : std::vector<int64_t>{};
  return {x, at::zeros_like(x), at::zeros(numbers, at::kDouble), at::zeros(numbers, at::kDouble)};
}

/// Which dimension of the tensor is cut for `dim` of its matrices.
int64_t cut_dimension(const Tensor& t, int64_t dim, bool batched) {
  return batched ? t.dim() - 2 + dim : dim;
}

Tensor part(const Tensor& t, int64_t dim, bool batched, const std::vector<int64_t>& cuts, int64_t rank) {
  const auto first = std::accumulate(cuts.begin(), cuts.begin() + rank, int64_t{0});
  return t.narrow(cut_dimension(t, dim, batched), first, cuts[static_cast<size_t>(rank)]).clone();
}

void step(Rule rule, std::vector<Point>& points, const std::vector<Tensor>& gradients, double rate,
          bool batched, const CayleyOptions& options, const Tensor& skipped, const Tensor& off,
          const Sharding& sharding = {}) {
  std::vector<Tensor> xs, ms, vs, ks;
  for (const auto& point : points) {
    xs.push_back(point.x);
    ms.push_back(point.m);
    vs.push_back(point.v);
    ks.push_back(point.k);
  }
  const auto l = at::full({}, rate, at::kDouble);
  switch (rule) {
    case Rule::kSgd:
      return stiefel::cayley_sgd_(xs, ms, gradients, skipped, l, 0.9, options, batched, off, sharding);
    case Rule::kAdam:
      return stiefel::cayley_adam_(xs, ms, vs, ks, gradients, skipped, l, 0.9, 0.99, options, batched, off,
                                   sharding);
    case Rule::kMuon:
      return stiefel::cayley_muon_(xs, ms, gradients, skipped, l, {}, options, batched, off, sharding);
    case Rule::kNesterovMuon:
      break;
  }
  MuonTerms terms;
  terms.nesterov = true;
  terms.scale = stiefel::MuonScale::kRms;
  terms.polar.exact_root = true;
  stiefel::cayley_muon_(xs, ms, gradients, skipped, l, terms, options, batched, off, sharding);
}

Tensor gradient(const Tensor& like, int64_t seed, double scale) {
  auto generator = at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(seed));
  const auto wide = like.is_complex() ? at::kComplexDouble : at::kDouble;
  return (at::randn(like.sizes(), generator, at::TensorOptions(wide)) * scale).to(like.scalar_type());
}

struct Case {
  std::vector<int64_t> shape;
  int64_t dim;
  at::ScalarType type = at::kDouble;
  bool batched = false;
  CayleyOptions options = {};
};

/// Cuts of a length: uneven, with an empty one where there are three or more.
std::vector<int64_t> cut(int64_t length, int64_t size) {
  std::vector<int64_t> cuts(static_cast<size_t>(size), 0);
  int64_t left = length;
  for (int64_t rank = 0; rank + 1 < size; ++rank) {
    const auto piece = size >= 3 && rank == 1 ? 0 : (left + 2) / 3;
    cuts[static_cast<size_t>(rank)] = piece;
    left -= piece;
  }
  cuts.back() = left;
  return cuts;
}

/// Steps one weight whole and on `size` ranks; returns the largest difference, and checks the defect.
double compare(Rule rule, const Case& c, int64_t size, int steps, double scale, double defect) {
  auto whole = start(c.shape, c.type, c.batched);
  const double rate = rule == Rule::kMuon || rule == Rule::kNesterovMuon ? 0.05 : 0.2;
  const auto axis = cut_dimension(whole.x, c.dim, c.batched);
  const auto cuts = cut(whole.x.size(axis), size);
  std::vector<std::vector<Tensor>> found(static_cast<size_t>(steps));
  for (auto& of_step : found) of_step.resize(static_cast<size_t>(size));
  const auto first = whole.x.clone();
  run_ranks(size, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto r = ranks->rank();
    std::vector<Point> mine{
        {part(first, c.dim, c.batched, cuts, r), {}, at::zeros_like(whole.v), at::zeros_like(whole.k)}};
    mine[0].m = at::zeros_like(mine[0].x);
    auto length = first.size(axis);
    if (!c.batched && c.dim == 1) length = first.numel() / first.size(0);
    const Sharding sharding{ranks, c.dim, {length}};
    const auto skipped = at::zeros({}, at::kLong), off = at::zeros({}, at::kLong);
    for (int s = 0; s < steps; ++s) {
      const auto g = part(gradient(first, s, scale), c.dim, c.batched, cuts, r);
      step(rule, mine, {g}, rate, c.batched, c.options, skipped, off, sharding);
      found[static_cast<size_t>(s)][static_cast<size_t>(r)] = mine[0].x.clone();
    }
    EXPECT_EQ(skipped.item<int64_t>() + off.item<int64_t>(), 0);
    EXPECT_LT(stiefel::sharded_defect(mine[0].x, *ranks, c.dim, c.batched).max().item<double>(), defect);
  });
  double most = 0;
  std::vector<Point> alone{whole};
  const auto skipped = at::zeros({}, at::kLong), off = at::zeros({}, at::kLong);
  for (int s = 0; s < steps; ++s) {
    step(rule, alone, {gradient(first, s, scale)}, rate, c.batched, c.options, skipped, off);
    most = std::max(most, support::distance(at::cat(found[static_cast<size_t>(s)], axis), alone[0].x));
  }
  EXPECT_GT(support::distance(alone[0].x, first), 1e-3);
  return most;
}

class ShardedSteps : public ::testing::TestWithParam<Rule> {};
INSTANTIATE_TEST_SUITE_P(Rules, ShardedSteps,
                         ::testing::Values(Rule::kSgd, Rule::kAdam, Rule::kMuon, Rule::kNesterovMuon));

TEST_P(ShardedSteps, EqualThoseOfOneProcess) {
  CayleyOptions exact, spectral, five;
  exact.exact = true;
  spectral.norm = stiefel::Norm::kSpectral;
  five.iterations = 5;
  const std::vector<Case> cases{
      {{6, 20}, 1},        // wide
      {{20, 6}, 0},        // tall
      {{6, 6}, 1},         // square, by columns
      {{6, 6}, 0},         // and by rows
      {{8, 12}, 1},        // n < 2p; parts are taller than wide
      {{4, 6, 3, 3}, 1},   // a convolution's weight by its input channels
      {{40, 2, 3, 3}, 0},  // and by its output channels
      {{1, 9}, 1},         // a row
      {{5, 14}, 1, at::kComplexDouble},
      {{14, 5}, 0, at::kComplexDouble},
      {{3, 4, 10}, 1, at::kDouble, true},  // a stack
      {{2, 3, 10, 4}, 0, at::kDouble, true},
      {{6, 20}, 1, at::kDouble, false, exact},
      {{6, 20}, 1, at::kDouble, false, spectral},
      {{6, 20}, 1, at::kDouble, false, five},
  };
  for (const auto& c : cases) {
    for (const int64_t size : {1, 2, 3, 4}) {
      for (const double scale : {0.05, 1.0, 1e3}) {
        SCOPED_TRACE(::testing::Message() << at::IntArrayRef(c.shape) << " dim " << c.dim << " on " << size
                                          << " ranks, gradients of " << scale);
        // The exact root multiplies rounding by the inverse of the momentum's smallest singular value.
        EXPECT_LT(compare(GetParam(), c, size, 20, scale, 1e-13),
                  GetParam() == Rule::kNesterovMuon ? 1e-8 : 1e-11);
      }
    }
  }
}

TEST_P(ShardedSteps, EqualThoseOfOneProcessInFloat) {
  for (const int64_t size : {2, 3}) {
    EXPECT_LT(compare(GetParam(), {{16, 72}, 1, at::kFloat}, size, 50, 0.05, 4e-6), 2e-5);
    EXPECT_LT(compare(GetParam(), {{72, 16}, 0, at::kFloat}, size, 50, 0.05, 4e-6), 2e-5);
  }
}

TEST(ShardedStep, IsThePapersDenseStepWithItsPolarFactor) {
  const auto x = support::point({5, 17}).detach();
  const auto cuts = std::vector<int64_t>{4, 0, 13};
  reference::Point point(x.t().contiguous());
  reference::Options options;
  options.rate = 0.2;
  options.beta1 = 0.9;
  std::vector<Tensor> found(3);
  const int steps = 30;
  run_ranks(3, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto r = ranks->rank();
    std::vector<Point> mine{{part(x, 1, false, cuts, r), {}, {}, {}}};
    mine[0].m = at::zeros_like(mine[0].x);
    const auto skipped = at::zeros({}, at::kLong);
    for (int s = 0; s < steps; ++s) {
      step(Rule::kSgd, mine, {part(gradient(x, s, 0.3), 1, false, cuts, r)}, 0.2, false, {}, skipped, {},
           {ranks, 1, {17}});
    }
    found[static_cast<size_t>(r)] = mine[0].x;
  });
  for (int s = 0; s < steps; ++s) reference::sgd_step(point, gradient(x, s, 0.3).t(), options);
  EXPECT_LT(support::distance(at::cat(found, 1).t(), point.x), 1e-8);
}

TEST(ShardedStep, LeavesWhatOneRankAloneSeesToBeBad) {
  // The NaN is in rank 1's part of the first matrix; the second matrix's point is off the manifold on rank 0.
  const auto a = support::point({4, 12}).detach(), b = support::point({5, 12}).detach(),
             c = support::point({3, 12}).detach();
  const std::vector<int64_t> cuts{7, 5};
  run_ranks(2, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto r = ranks->rank();
    std::vector<Point> mine;
    std::vector<Tensor> gradients;
    for (const auto& x : {a, b, c}) {
      const auto local = part(x, 1, false, cuts, r);
      mine.push_back({local, at::zeros_like(local), at::zeros({}, at::kDouble), at::zeros({}, at::kDouble)});
      gradients.push_back(part(gradient(x, 3, 1), 1, false, cuts, r));
    }
    if (r == 1) gradients[0][2][1] = NAN;
    if (r == 0) mine[1].x.mul_(3);
    const auto before = std::vector<Tensor>{mine[0].x.clone(), mine[1].x.clone(), mine[2].x.clone()};
    const auto skipped = at::zeros({}, at::kLong), off = at::zeros({}, at::kLong);
    const Sharding sharding{ranks, 1, {12, 12, 12}};
    step(Rule::kAdam, mine, gradients, 0.2, false, {}, skipped, off, sharding);
    EXPECT_EQ(skipped.item<int64_t>(), 2);
    EXPECT_EQ(off.item<int64_t>(), 1);
    for (const size_t i : {0, 1}) {
      EXPECT_TRUE(mine[i].x.equal(before[i])) << i;
      EXPECT_TRUE(mine[i].m.eq(0).all().item<bool>()) << i;
      EXPECT_EQ(mine[i].k.item<double>(), 0) << i;
    }
    EXPECT_FALSE(mine[2].x.equal(before[2]));
    EXPECT_EQ(mine[2].k.item<double>(), 1);
    const auto message =
        support::error_of([&] { step(Rule::kAdam, mine, gradients, 0.2, false, {}, skipped, {}, sharding); });
    EXPECT_NE(message.find("1 sharded matrix was left in place"), std::string::npos) << message;
  });
}

TEST(ShardedStep, NeverSendsMoreThanItsGramMatrices) {
  const int64_t p = 16, n = 4000;
  const auto x = support::point({p, n}, at::kFloat).detach();
  for (const auto rule : {Rule::kSgd, Rule::kAdam, Rule::kMuon}) {
    run_ranks(4, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
      const std::vector<int64_t> cuts(4, n / 4);
      const auto local = part(x, 1, false, cuts, ranks->rank());
      std::vector<Point> mine{
          {local, at::zeros_like(local), at::zeros({}, at::kDouble), at::zeros({}, at::kDouble)}};
      step(rule, mine, {part(gradient(x, 1, 0.1), 1, false, cuts, ranks->rank())}, 0.05, false, {},
           at::zeros({}, at::kLong), {}, {ranks, 1, {n}});
      // E and T by their upper triangles, S twice, the row squares, ‖G‖² as two floats, and Muon's unit.
      const auto floats = p * (p + 1) + 2 * p * p + p + 2;
      EXPECT_EQ(ranks->bytes(), 4 * floats + (rule == Rule::kMuon ? 8 : 0));
    });
  }
}

TEST(ShardedStep, RefusesWhatItCannotDo) {
  run_ranks(2, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    const auto x = at::eye(4, at::kDouble).narrow(1, 2 * ranks->rank(), 2).clone();
    std::vector<Point> mine{{x, at::zeros_like(x), at::zeros({}, at::kDouble), at::zeros({}, at::kDouble)}};
    const auto refusal = [&](const CayleyOptions& options, const Sharding& sharding) {
      return support::error_of(
          [&] { step(Rule::kSgd, mine, {x}, 0.1, false, options, at::zeros({}, at::kLong), {}, sharding); });
    };
    CayleyOptions literal, one;
    literal.polish = false;
    one.norm = stiefel::Norm::kOne;
    EXPECT_NE(refusal(literal, {ranks, 1, {4}}).find("polish is false"), std::string::npos);
    EXPECT_NE(refusal(one, {ranks, 1, {4}}).find("the norm 'one'"), std::string::npos);
    EXPECT_NE(refusal({}, {ranks, 1, {}}).find("1 sharded points came with 0 lengths"), std::string::npos);
    EXPECT_NE(refusal({}, {ranks, 0, {1}}).find("divided along its long side"), std::string::npos);
    EXPECT_NE(refusal({}, {ranks, 2, {4}}).find("got 2"), std::string::npos);
    const auto expect_refused = [&](Rule rule, std::vector<Point> points, const char* part) {
      const std::vector<Tensor> gradients(points.size(), x);
      const std::vector<int64_t> lengths(points.size(), 4);
      const auto message = support::error_of([&] {
        step(rule, points, gradients, 0.1, false, {}, at::zeros({}, at::kLong), {}, {ranks, 1, lengths});
      });
      EXPECT_NE(message.find(part), std::string::npos) << message;
      EXPECT_TRUE(x.equal(at::eye(4, at::kDouble).narrow(1, 2 * ranks->rank(), 2)));
    };
    const auto none = at::zeros({}, at::kDouble);
    expect_refused(Rule::kAdam, {{x, at::zeros_like(x), at::zeros({}, at::kFloat), none}},
                   "the second moments must be one double per matrix");
    expect_refused(Rule::kAdam, {{x, at::zeros_like(x), none.clone(), at::zeros({2}, at::kDouble)}},
                   "the step counts must be one double per matrix");
    expect_refused(Rule::kAdam, {{x, at::zeros_like(x), none, none}}, "overlap in memory");
    expect_refused(Rule::kSgd, {{x, at::zeros_like(x), none, none}, {x, at::zeros_like(x), none, none}},
                   "overlap in memory");
    expect_refused(Rule::kSgd, {{x, x, none, none}}, "overlap in memory");
  });
}

TEST(ShardedOrthonormalize, IsThePolarFactorOfTheWhole) {
  for (const auto type : {at::kFloat, at::kDouble, at::kComplexDouble}) {
    const auto x = at::randn({5, 30}, type);
    const auto expected = x.clone();
    stiefel::orthonormalize_(expected);
    const std::vector<int64_t> cuts{3, 20, 7};
    std::vector<Tensor> found(3);
    run_ranks(3, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
      const auto mine = part(x, 1, false, cuts, ranks->rank());
      EXPECT_NEAR(stiefel::sharded_defect(mine, *ranks, 1).item<double>(), support::defect(x),
                  1e-9 * support::defect(x));
      stiefel::sharded_orthonormalize_(mine, *ranks, 1);
      EXPECT_LT(stiefel::sharded_defect(mine, *ranks, 1).item<double>(), type == at::kFloat ? 1e-6 : 1e-13);
      found[static_cast<size_t>(ranks->rank())] = mine;
    });
    EXPECT_LT(support::distance(at::cat(found, 1), expected), type == at::kFloat ? 1e-6 : 1e-12);
  }
  run_ranks(2, [&](const std::shared_ptr<support::ThreadRanks>& ranks) {
    auto flat = at::ones({10, 3}, at::kDouble);  // rank 1
    EXPECT_NE(
        support::error_of([&] { stiefel::sharded_orthonormalize_(flat, *ranks, 0); }).find("rank-deficient"),
        std::string::npos);
  });
}

}  // namespace sharded_step_test
