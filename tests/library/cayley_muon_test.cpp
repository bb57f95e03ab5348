#include <cmath>
#include <random>

#include "reference.h"
#include "src/minimax_quintics.h"
#include "tests/support.h"

// Cayley Muon against a dense reference: the singular value decomposition of the momentum, the n×n matrix W,
// and the polar factor of its iterate; then what must hold for any gradient.

namespace cayley_muon_test {

using at::Tensor;
using stiefel::CayleyMuon;
using stiefel::CayleyMuonOptions;
using stiefel::Manifold;
using support::copy_of;
using support::point;

const std::vector<at::ScalarType> kTypes{at::kDouble, at::kComplexDouble};

// ---- the polynomials ----

double worst_error(const std::vector<stiefel::detail::Quintic>& rounds, double least) {
  double worst = 0;
  for (int i = 0; i <= 20000; ++i) {
    double sigma = least + (1 - least) * i / 20000;
    for (const auto& f : rounds) sigma = f(sigma);
    worst = std::max(worst, std::abs(1 - sigma));
  }
  return worst;
}

TEST(Quintics, NoOtherIsCloserToOne) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const auto& [least, most] : {std::pair{0.01, 1.0}, {0.2, 1.7}, {0.7, 1.3}}) {
    const auto best = stiefel::detail::minimax_quintic(least, most);
    const auto error = [&, least = least, most = most](const stiefel::detail::Quintic& f) {
      double worst = 0;
      for (int i = 0; i <= 2000; ++i) {
        worst = std::max(worst, std::abs(1 - f(least + (most - least) * i / 2000)));
      }
      return worst;
    };
    EXPECT_NEAR(error(best.quintic), best.error, 1e-6);
    for (int i = 0; i < 2000; ++i) {
      auto other = best.quintic;
      const double size = std::pow(10, -1 - i % 4);
      other.a += size * normal(random);
      other.b += size * normal(random);
      other.c += size * normal(random);
      EXPECT_GT(error(other), best.error - 1e-6);
    }
  }
}

TEST(Quintics, ReachAsFarDownAsTheHeaderSays) {
  const double promised[] = {0.2544, 0.0643, 0.0153, 0.00361, 0.00085};
  for (int64_t rounds = 1; rounds <= stiefel::detail::kMostRounds; ++rounds) {
    const auto& all = stiefel::detail::minimax_quintics(rounds);
    EXPECT_EQ(all.rounds.size(), static_cast<size_t>(rounds));
    EXPECT_NEAR(all.least / promised[rounds - 1], 1, 0.01);
    EXPECT_LE(worst_error(all.rounds, all.least), 0.15 + 1e-6);
    EXPECT_GT(worst_error(all.rounds, all.least * 0.9), 0.15 + 1e-3);
  }
}

/// U·diag(values)·Vᴴ, n×p.
Tensor with_singular_values(int64_t n, int64_t p, const Tensor& values, at::ScalarType type) {
  const auto u = reference::orthonormal_weight({n, p}, false, type);
  const auto v = reference::orthonormal_weight({p, p}, false, type);
  return (u * values.to(type)).mm(v.mH());
}

TEST(PolarDirection, BringsSingularValuesNearOne) {
  for (const auto type : kTypes) {
    for (int64_t rounds = 1; rounds <= 5; ++rounds) {
      // The root starts from M/√‖MᴴM‖_F, whose largest singular value is at least p^(−¼) = 0.5.
      const double least = 2 * stiefel::detail::minimax_quintics(rounds).least;
      if (least > 0.9) continue;
      const auto values = torch::logspace(std::log10(least), 0, 16, 10, at::kDouble);
      for (const double size : {1.0, 1e-200, 1e150}) {
        const auto m = with_singular_values(40, 16, values, type) * size;
        const auto d = stiefel::polar_direction(m, {rounds, false});
        const auto after = at::linalg_svdvals(d);
        EXPECT_LT((after - 1).abs().max().item<double>(), 0.15 + 1e-9) << rounds << " " << size;
        EXPECT_LT(support::distance(stiefel::polar_direction(m, {rounds, true}), reference::polar(m)), 1e-9);
        // The singular vectors stay: DᴴM is Hermitian and positive.
        const auto overlap = d.mH().mm(m * (1 / size));
        EXPECT_LT(support::distance(overlap, overlap.mH()), 1e-12);
        EXPECT_GT(at::linalg_eigvalsh(overlap).min().item<double>(), 0);
      }
    }
  }
}

TEST(PolarDirection, KeepsWhatIsSmallSmall) {
  const auto m = torch::zeros({12, 30});
  EXPECT_TRUE(torch::equal(stiefel::polar_direction(m), m));
  m[3][4] = 7;  // rank one: its own polar factor
  auto one = torch::zeros_like(m);
  one[3][4] = 1;
  EXPECT_LT(support::distance(stiefel::polar_direction(m), one), 0.151);
  EXPECT_LT(support::distance(stiefel::polar_direction(m, {3, true}), one), 1e-5);
  const auto half = torch::randn({4, 20}).to(at::kHalf);
  EXPECT_EQ(stiefel::polar_direction(half).scalar_type(), at::kHalf);
  EXPECT_LT(support::defect(stiefel::polar_direction(half, {3}).to(at::kFloat)), 0.5);
}

// ---- parity ----

struct Terms {
  double rate = 0.02;
  double momentum = 0.9;
  bool nesterov = false;
  int64_t iterations = 2;
  bool exact = false;
};

Tensor tangent(const Tensor& x, const Tensor& z) {
  const auto s = x.mH().mm(z);
  return z - x.mm(s + s.mH()) / 2;
}

/// One step with the gradient's sign of the momentum. Singular values below 1e-7 of the largest count as 0.
void dense_step(Tensor& x, Tensor& m, const Tensor& g, const Terms& terms) {
  m = tangent(x, terms.momentum * m + g);
  const auto direction = terms.nesterov ? tangent(x, g + terms.momentum * m) : m;
  const auto [u, s, vh] = at::linalg_svd(direction, /*full_matrices=*/false);
  const auto one = (s > 1e-7 * s[0]).to(x.scalar_type());
  const auto d = tangent(x, (u * one).mm(vh));
  const auto w = reference::generator(x, d);
  x = reference::polar(terms.exact ? reference::closed_form(x, w, -terms.rate)
                                   : reference::iterate(x, w, -terms.rate, terms.iterations));
}

/// The worst difference from the reference over 20 steps.
double gap_of(at::IntArrayRef shape, bool batched, at::ScalarType type, const Terms& terms) {
  auto weight = reference::orthonormal_weight(shape, batched, type);
  auto x = reference::tall(weight, batched);
  std::vector<Tensor> m;
  for (const auto& one : x) m.push_back(torch::zeros_like(one));
  CayleyMuon optimizer({weight}, CayleyMuonOptions(terms.rate)
                                     .batched(batched)
                                     .momentum(terms.momentum)
                                     .nesterov(terms.nesterov)
                                     .exact_root(true)
                                     .iterations(terms.iterations)
                                     .exact(terms.exact));
  double worst = 0;
  for (int step = 0; step < 20; ++step) {
    weight.mutable_grad() = torch::randn_like(weight) * std::pow(10, step % 5 - 2);
    const auto g = reference::tall(weight.grad(), batched);
    optimizer.step();
    const auto ours = reference::tall(weight, batched);
    for (size_t i = 0; i < x.size(); ++i) {
      dense_step(x[i], m[i], g[i], terms);
      worst = std::max(worst, support::distance(ours[i], x[i]));
    }
  }
  return worst;
}

TEST(Parity, IsTheDenseStepWhereTheRootIsExact) {
  for (const auto type : kTypes) {
    for (const bool nesterov : {false, true}) {
      for (const int64_t iterations : {1, 2, 3, 5, 0}) {
        const Terms terms{iterations == 5 ? 0.2 : 0.02, 0.9, nesterov, iterations, iterations == 0};
        for (const auto& shape :
             {std::vector<int64_t>{6, 20}, {20, 6}, {1, 9}, {7, 1}, {8, 2, 3, 3}, {5, 60}}) {
          EXPECT_LT(gap_of(shape, false, type, terms), 1e-12) << shape << " " << type << " " << iterations;
        }
        EXPECT_LT(gap_of({3, 5, 16}, true, type, terms), 1e-12);
        EXPECT_LT(gap_of({2, 3, 16, 5}, true, type, terms), 1e-12);
        // A skew Ω of even size: its singular values come close to 0, and the Gram matrix squares them.
        EXPECT_LT(gap_of({8, 8}, false, type, terms), 1e-9);
        EXPECT_LT(gap_of({6, 7}, false, type, terms), 1e-8);
      }
    }
  }
}

TEST(Parity, AnOddSquareKeepsTheDirectionThatItCannotTurn) {
  // A real skew matrix of odd size has a singular value 0.
  EXPECT_LT(gap_of({7, 7}, false, at::kDouble, {}), 1e-9);
  EXPECT_LT(gap_of({1, 1}, false, at::kDouble, {}), 1e-15);
}

// ---- what holds for any gradient ----

TEST(Angle, AStepTurnsEveryDirectionByTheRate) {
  for (const double size : {1.0, 1e-30, 1e12}) {
    for (const bool exact : {true, false}) {
      const auto x = point({16, 400}, at::kFloat);
      const auto before = x.detach().clone();
      support::set_gradient(x, torch::randn({16, 400}) * size);
      CayleyMuon optimizer({x}, CayleyMuonOptions(0.01).exact_root(exact));
      optimizer.step();
      // n is large, so nearly all of a random gradient is tangent, and its singular values are alike.
      const auto turns = at::linalg_svdvals(x.detach() - before) / 0.01;
      EXPECT_GT(turns.min().item<double>(), exact ? 0.95 : 0.8) << size;
      EXPECT_LT(turns.max().item<double>(), exact ? 1.01 : 1.16) << size;
    }
  }
}

TEST(Angle, TheRmsScaleIsThatOfTheEntries) {
  const auto x = point({8, 200}), y = copy_of(x);
  support::randomize_gradients({x});
  support::set_gradient(y, x.grad());
  CayleyMuon plain({x}, CayleyMuonOptions(0.2 * std::sqrt(200.0) * 1e-3));
  CayleyMuon scaled({y}, CayleyMuonOptions(1e-3).scale(stiefel::MuonScale::kRms));
  plain.step();
  scaled.step();
  EXPECT_LT(support::distance(x, y), 1e-12);
}

struct Walk {
  std::vector<int64_t> shape;
  at::ScalarType type;
};

using Gradient = std::function<Tensor(const Tensor& x, int step)>;

/// The largest defect at any of the steps.
double walk(const Walk& walk, const CayleyMuonOptions& options, int steps, const Gradient& gradient) {
  auto x = point(walk.shape, walk.type);
  CayleyMuon optimizer({x}, options);
  double worst = 0;
  for (int step = 0; step < steps; ++step) {
    support::set_gradient(x, gradient(x.detach(), step));
    optimizer.step();
    worst = std::max(worst, support::defect(x));
  }
  EXPECT_EQ(optimizer.skipped_steps(), 0);
  return worst;
}

const Walk kWalks[] = {{{32, 144}, at::kFloat}, {{40, 48}, at::kFloat},       {{16, 16}, at::kFloat},
                       {{48, 12}, at::kFloat},  {{9, 30}, at::kComplexFloat}, {{12, 12}, at::kComplexFloat},
                       {{1, 40}, at::kFloat},   {{15, 15}, at::kFloat}};

TEST(Drift, RandomWalksStayOrthonormal) {
  const auto gradient = [](const Tensor& x, int) { return torch::randn_like(x); };
  for (const auto& one : kWalks) {
    for (const auto& options :
         {CayleyMuonOptions(0.01), CayleyMuonOptions(0.05).rounds(5), CayleyMuonOptions(0.1).exact_root(true),
          CayleyMuonOptions(0.02).nesterov(true), CayleyMuonOptions(0.3),
          CayleyMuonOptions(0.5).exact(true)}) {
      // Half a radian at a time, where n < 2p: the p×p solve loses digits.
      EXPECT_LT(walk(one, options, 200, gradient), options.exact() ? 2e-5 : 5e-6)
          << one.shape << " " << one.type << " at " << options.lr();
    }
  }
}

TEST(Drift, HostileGradientsDoNotSpoilIt) {
  const auto scaled = [](const Tensor& x, int step) {
    return torch::randn_like(x) * std::pow(10.0, step % 43 - 30);  // 1e-30 to 1e12
  };
  const auto normal = [](const Tensor& x, int step) {  // a normal part of up to 1e6 times the tangent part
    const auto s = torch::randn({x.size(0), x.size(0)}, x.options());
    return (s + s.mH()).mm(x) * std::pow(10.0, step % 7) + torch::randn_like(x);
  };
  const auto one_dimensional = [](const Tensor& x, int) {
    return torch::randn({x.size(0), 1}, x.options()).mm(torch::randn({1, x.size(1)}, x.options()));
  };
  const auto nearly = [&](const Tensor& x, int step) {
    return one_dimensional(x, step) + 1e-4 * torch::randn_like(x);
  };
  const auto sparse = [](const Tensor& x, int step) {
    auto g = torch::zeros_like(x);
    g.view(-1)[step * 7 % x.numel()] = 1;
    return g;
  };
  for (const auto& one : kWalks) {
    for (const auto& options : {CayleyMuonOptions(0.01), CayleyMuonOptions(0.01).rounds(5),
                                CayleyMuonOptions(0.05).exact_root(true)}) {
      int number = 0;
      for (const Gradient& gradient : {Gradient(scaled), Gradient(normal), Gradient(one_dimensional),
                                       Gradient(nearly), Gradient(sparse)}) {
        EXPECT_LT(walk(one, options, 90, gradient), 2e-5)
            << one.shape << " " << one.type << " gradient " << number << " at " << options.lr() << " after "
            << options.rounds() << " rounds";
        ++number;
      }
    }
  }
}

TEST(Still, WhereThereIsNothingToFollow) {
  for (const auto& shape : {std::vector<int64_t>{6, 20}, {6, 6}}) {
    const auto x = point(shape, at::kFloat);
    const auto before = x.detach().clone();
    CayleyMuon optimizer({x});
    support::set_gradient(x, torch::zeros_like(x));
    optimizer.step();
    EXPECT_LT(support::distance(x, before), 1e-6);
    // A gradient without a tangent part: what the projection leaves is rounding, and is not followed.
    const auto s = torch::randn({6, 6});
    support::set_gradient(x, (s + s.t()).mm(x.detach()));
    optimizer.step();
    EXPECT_LT(support::distance(x, before), 1e-6);
    EXPECT_EQ(optimizer.skipped_steps(), 0);
  }
}

TEST(Gradients, ANonFiniteOneLeavesItsMatrixAlone) {
  for (const bool nesterov : {false, true}) {
    for (const int64_t n : {9, 4}) {
      const auto a = point({4, n}), b = point({4, n}), alone = copy_of(b);
      const auto options = CayleyMuonOptions(0.02).nesterov(nesterov);
      CayleyMuon both({a, b}, options), only({alone}, options);
      for (const double bad : {0.0, std::nan(""), HUGE_VAL, 1e300, 0.0}) {
        support::randomize_gradients({a, b});
        support::set_gradient(alone, b.grad());
        if (bad != 0) a.mutable_grad()[1][2] = bad;
        const auto before = copy_of(a);
        both.step();
        only.step();
        EXPECT_EQ(torch::equal(a, before), bad != 0) << bad;
        EXPECT_LT(support::distance(b, alone), 1e-14) << bad;
      }
      EXPECT_EQ(both.skipped_steps(), 3);
    }
  }
}

std::vector<Tensor> some_parameters() {
  auto half = point({6, 10}, at::kFloat).detach().to(at::kBFloat16).requires_grad_();
  auto last = point({6, 3, 4, 4}, at::kFloat).detach().contiguous(at::MemoryFormat::ChannelsLast);
  return {point({5, 12}, at::kFloat), point({7, 7}, at::kComplexFloat),     last.requires_grad_(), half,
          point({9, 4}, at::kFloat),  torch::randn({5, 3}).requires_grad_()};
}

std::unique_ptr<CayleyMuon> make(const std::vector<Tensor>& p) {
  const auto free = CayleyMuonOptions(0.1).manifold(Manifold::kEuclidean).nesterov(true).weight_decay(1e-3);
  std::vector<torch::optim::OptimizerParamGroup> groups{{{p[0], p[1], p[2], p[3], p[4]}},
                                                        {{p[5]}, free.clone()}};
  return std::make_unique<CayleyMuon>(
      groups, CayleyMuonOptions(0.02).momentum(0.8).nesterov(true).rounds(2).scale(stiefel::MuonScale::kRms));
}

TEST(Archive, ContinuingEqualsNotStopping) {
  const auto run = [](CayleyMuon& optimizer, const std::vector<Tensor>& parameters, int from, int to) {
    for (int step = from; step < to; ++step) {
      torch::manual_seed(100 + step);
      support::randomize_gradients(parameters);
      optimizer.step();
    }
  };
  const auto whole = some_parameters();
  std::vector<Tensor> parted;
  for (const auto& parameter : whole) parted.push_back(copy_of(parameter));
  const auto straight = make(whole);
  run(*straight, whole, 0, 12);
  const auto first = make(parted);
  run(*first, parted, 0, 5);
  const auto bytes = support::save(*first);

  std::vector<Tensor> later;
  for (const auto& parameter : parted) later.push_back(copy_of(parameter));
  // Options that the archive brings back differ from these.
  std::vector<torch::optim::OptimizerParamGroup> groups{
      {{later[0], later[1], later[2], later[3], later[4]}},
      {{later[5]}, CayleyMuonOptions(0.5).manifold(Manifold::kEuclidean).clone()}};
  CayleyMuon second(groups, CayleyMuonOptions(0.3));
  support::load(second, bytes);
  run(second, later, 5, 12);
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_TRUE(torch::equal(whole[i], later[i])) << i;
  const auto& options = static_cast<CayleyMuonOptions&>(second.param_groups()[0].options());
  EXPECT_EQ(options.rounds(), 2);
  EXPECT_EQ(options.scale(), stiefel::MuonScale::kRms);
  EXPECT_TRUE(options.nesterov());
  stiefel::CayleySGD other({copy_of(whole[0])}, stiefel::CayleySGDOptions(0.1));
  EXPECT_ERROR(support::load(other, bytes), "CayleyMuon");
}

TEST(Groups, EuclideanOnesAreTorchsSgd) {
  const auto ours = torch::randn({5, 3}, at::kDouble).requires_grad_(), theirs = copy_of(ours);
  CayleyMuon mine({ours},
                  CayleyMuonOptions(0.1).manifold(Manifold::kEuclidean).nesterov(true).weight_decay(0.01));
  torch::optim::SGD sgd({theirs},
                        torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(0.01));
  for (int step = 0; step < 5; ++step) {
    support::randomize_gradients({ours});
    support::set_gradient(theirs, ours.grad());
    mine.step();
    sgd.step();
    EXPECT_TRUE(torch::equal(ours, theirs));
  }
}

TEST(Layouts, ChannelsLastAndTransposedAreSteppedWhereTheyLie) {
  const auto plain = point({6, 4, 3, 3});
  const auto last = plain.detach().contiguous(at::MemoryFormat::ChannelsLast).requires_grad_();
  CayleyMuon one({plain}), other({last});
  for (int step = 0; step < 5; ++step) {
    support::randomize_gradients({plain});
    support::set_gradient(last, plain.grad());
    one.step();
    other.step();
  }
  EXPECT_LT(support::distance(plain, last), 1e-13);
}

TEST(Input, OptionsOutOfRangeAreNamed) {
  const std::vector<Tensor> a{point({3, 8})};
  EXPECT_ERROR(CayleyMuon(a, CayleyMuonOptions(-1)), "lr");
  EXPECT_ERROR(CayleyMuon(a, CayleyMuonOptions(0.1).momentum(1)), "momentum must lie in [0, 1); got 1");
  EXPECT_ERROR(CayleyMuon(a, CayleyMuonOptions(0.1).rounds(0)), "rounds must lie in [1, 5]; got 0");
  EXPECT_ERROR(CayleyMuon(a, CayleyMuonOptions(0.1).rounds(6)), "got 6");
  EXPECT_ERROR(CayleyMuon(a, CayleyMuonOptions(0.1).momentum(0).nesterov(true)), "nesterov");
  EXPECT_ERROR(CayleyMuon(a, CayleyMuonOptions(0.1).dampening(0.5)), "dampening is 0.5");
  EXPECT_ERROR(CayleyMuon(a, CayleyMuonOptions(0.1).weight_decay(0.5)), "weight_decay is 0.5");
  EXPECT_ERROR(stiefel::muon_scale_from_string("spectral"), "choose none or rms");
  stiefel::CayleyOptions literal;
  literal.polish = false;
  const auto x = a[0].detach();
  EXPECT_ERROR(stiefel::cayley_muon_({x}, {torch::zeros_like(x)}, {x}, torch::zeros({}, at::kLong),
                                     torch::zeros({}, at::kDouble), {}, literal),
               "polish is false");
}

TEST(OffManifold, TheMatrixIsLeftAndTheErrorNamesIt) {
  const auto x = point({4, 9}), other = point({4, 9});
  CayleyMuon optimizer({x, other});
  x.detach().mul_(5);
  const auto before = copy_of(x), beside = copy_of(other);
  support::randomize_gradients({x, other});
  EXPECT_ERROR(optimizer.step(), "off the manifold by");
  EXPECT_TRUE(torch::equal(x, before));
  EXPECT_GT(support::distance(other, beside), 1e-4);
  EXPECT_EQ(optimizer.skipped_steps(), 1);
}

TEST(Problems, PcaFindsTheLeadingEigenvectors) {
  const int64_t n = 30, p = 5;
  for (const auto type : kTypes) {
    const auto u = reference::orthonormal_weight({n, n}, false, type);
    const auto eigenvalues = torch::linspace(1, 3, n, at::kDouble).square();
    const auto a = (u * eigenvalues).mm(u.mH());
    const double best = -eigenvalues.narrow(0, n - p, p).sum().item<double>();
    for (const bool nesterov : {false, true}) {
      auto x = point({p, n}, type);
      CayleyMuon optimizer({x}, CayleyMuonOptions(0.1).nesterov(nesterov));
      const stiefel::Schedule schedule(optimizer, [](double time) { return std::pow(0.98, time); });
      double value = 0;
      for (int step = 0; step < 800; ++step) {
        schedule.apply(optimizer, step);
        optimizer.zero_grad();
        const auto product = x.conj() * x.mm(a);
        const auto loss = (product.is_complex() ? at::real(product) : product).sum().neg();
        loss.backward();
        optimizer.step();
        value = loss.item<double>();
      }
      EXPECT_LT((value - best) / -best, 1e-8) << type;
      EXPECT_LT(support::defect(x), 1e-13);
    }
  }
}

}  // namespace cayley_muon_test
