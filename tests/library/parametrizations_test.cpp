#include "tests/support.h"

// Orthonormal weights by parametrisation: each map against its defining formula written out in double with
// nothing of the library's, its gradient against finite differences, and the layers built on it.

namespace parametrizations_test {

using at::Tensor;
using stiefel::OmdsmOptions;
using stiefel::Parametrization;

constexpr Parametrization kMaps[] = {Parametrization::kMatrixExp, Parametrization::kCayley,
                                     Parametrization::kHouseholder};
constexpr Parametrization kAll[] = {Parametrization::kOmdsm, Parametrization::kMatrixExp,
                                    Parametrization::kCayley, Parametrization::kHouseholder};
constexpr at::ScalarType kTypes[] = {at::kDouble, at::kComplexDouble};

/// UVᴴ of the SVD of each group of centred rows.
Tensor omdsm_by_svd(const Tensor& proxy, const std::vector<int64_t>& groups) {
  const auto v = proxy.detach().reshape({proxy.size(0), -1});
  const auto centered = v - v.mean(1, true);
  std::vector<Tensor> parts;
  int64_t row = 0;
  for (const auto size : groups) {
    const auto [u, s, vh] = at::linalg_svd(centered.narrow(0, row, size), false);
    parts.push_back(u.mm(vh));
    row += size;
  }
  return at::cat(parts).reshape(proxy.sizes());
}

/// The tall matrix of a weight (c_out, …).
Tensor tall(const Tensor& weight) {
  const auto m = weight.detach().reshape({weight.size(0), -1});
  return m.size(0) <= m.size(1) ? m.transpose(0, 1).contiguous() : m;
}

Tensor as_weight(const Tensor& q, const Tensor& like) {
  const auto rows =
      q.size(0) == like.size(0) && q.size(1) == like.numel() / like.size(0) && like.size(0) > q.size(1);
  return (rows ? q : q.transpose(0, 1)).reshape(like.sizes());
}

/// S = L − Lᴴ entry by entry.
Tensor skew_of(const Tensor& a) {
  const int64_t n = a.size(0);
  auto s = torch::zeros({n, n}, a.options());
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j <= std::min(i, a.size(1) - 1); ++j) {
      s[i][j] += a[i][j];
      s[j][i] -= a[i][j].conj();
    }
  }
  return s;
}

/// exp(S) by the eigen-decomposition of the Hermitian −iS.
Tensor exp_of(const Tensor& s) {
  const auto i = c10::complex<double>(0, 1);
  const auto complex = s.to(at::kComplexDouble);
  const auto [values, vectors] = at::linalg_eigh(complex * -i);
  const auto q = vectors.mul((values.to(at::kComplexDouble) * i).exp().unsqueeze(0)).mm(vectors.mH());
  return s.is_complex() ? q : at::real(q).contiguous();
}

/// The defining formulas with full n×n matrices, explicit inverses and explicit reflections.
Tensor map_by_formula(const Tensor& proxy, Parametrization map, const Tensor& base) {
  const auto a = tall(proxy);
  const int64_t n = a.size(0);
  const int64_t p = a.size(1);
  const auto identity = torch::eye(n, a.options());
  Tensor q;
  if (map == Parametrization::kHouseholder) {
    q = identity.clone();
    for (int64_t j = 0; j < p; ++j) {
      auto v = torch::zeros({n, 1}, a.options());
      v[j][0] = 1;
      for (int64_t i = j + 1; i < n; ++i) v[i][0] = a[i][j];
      q = q.mm(identity - 2 * v.mm(v.mH()) / v.abs().square().sum());
    }
    q = q.narrow(1, 0, p);
    q = base.defined() ? q.mm(torch::diag(base)) : -q;
  } else {
    const auto s = skew_of(a);
    q = map == Parametrization::kMatrixExp ? exp_of(s)
                                           : (identity + 0.5 * s).mm(at::linalg_inv(identity - 0.5 * s));
    if (base.defined()) q = base.mm(q);
    q = q.narrow(1, 0, p);
  }
  return as_weight(q, proxy);
}

/// ‖QᴴQ − I‖_F on the smaller side, and of rows [first, first + size).
double defect_of(const Tensor& weight) {
  const auto q = tall(weight.to(weight.is_complex() ? at::kComplexDouble : at::kDouble));
  return (q.mH().mm(q) - torch::eye(q.size(1), q.options())).abs().square().sum().sqrt().item<double>();
}

double worst_group(const Tensor& weight, const std::vector<int64_t>& groups) {
  double worst = 0;
  int64_t row = 0;
  for (const auto size : groups) {
    worst = std::max(worst, defect_of(weight.narrow(0, row, size)));
    row += size;
  }
  return worst;
}

/// The largest difference between autograd's gradient of Re⟨C, f(V)⟩ and central differences, over the
/// largest entry of the gradient. For complex V both parts of each entry are varied.
template <class Map>
double gradient_error(const Map& f, const Tensor& start) {
  auto v = start.detach().clone().requires_grad_(true);
  const auto out = f(v);
  const auto c = torch::randn_like(out.detach());
  const auto loss = [&](const Tensor& y) {
    return y.is_complex() ? at::real(c.conj() * y).sum() : (c * y).sum();
  };
  loss(out).backward();
  const auto gradient = v.grad().is_complex() ? at::view_as_real(v.grad().contiguous()).reshape(-1)
                                              : v.grad().contiguous().reshape(-1);
  const torch::NoGradGuard no_grad;
  auto moved = start.detach().clone(at::MemoryFormat::Contiguous);
  auto entries = moved.is_complex() ? at::view_as_real(moved).view(-1) : moved.view(-1);
  const double h = 1e-6;
  double worst = 0;
  for (int64_t i = 0; i < entries.size(0); ++i) {
    const double before = entries[i].template item<double>();
    entries[i] = before + h;
    const double up = loss(f(moved)).template item<double>();
    entries[i] = before - h;
    const double down = loss(f(moved)).template item<double>();
    entries[i] = before;
    worst = std::max(worst, std::abs((up - down) / (2 * h) - gradient[i].template item<double>()));
  }
  return worst / gradient.abs().max().template item<double>();
}

TEST(Omdsm, GroupsAreAsEqualAsCanBe) {
  using Groups = std::vector<int64_t>;
  EXPECT_EQ(stiefel::omdsm_groups(64, 576), Groups({64}));
  EXPECT_EQ(stiefel::omdsm_groups(8, 9), Groups({8}));
  EXPECT_EQ(stiefel::omdsm_groups(8, 8), Groups({4, 4}));          // centring leaves 7 dimensions
  EXPECT_EQ(stiefel::omdsm_groups(10, 5), Groups({4, 3, 3}));      // p > n
  EXPECT_EQ(stiefel::omdsm_groups(64, 27), Groups({22, 21, 21}));  // VGG's first layer
  EXPECT_EQ(stiefel::omdsm_groups(64, 576, 32), Groups({32, 32}));
  EXPECT_EQ(stiefel::omdsm_groups(10, 100, 4), Groups({4, 3, 3}));
  EXPECT_EQ(stiefel::omdsm_groups(3, 2), Groups({1, 1, 1}));
}

TEST(Omdsm, IsThePolarFactorOfTheCenteredProxy) {
  for (const auto type : kTypes) {
    for (const auto& [shape, size] : std::vector<std::pair<std::vector<int64_t>, int64_t>>{{{6, 20}, 0},
                                                                                           {{6, 20}, 4},
                                                                                           {{5, 2, 3, 3}, 0},
                                                                                           {{7, 7}, 0},
                                                                                           {{10, 5}, 0},
                                                                                           {{4, 3}, 1},
                                                                                           {{1, 4}, 0}}) {
      const auto proxy = torch::randn(shape, type) + 3;
      const auto groups = stiefel::omdsm_groups(shape[0], proxy.numel() / shape[0], size);
      const auto k = stiefel::omdsm(proxy, {size});
      EXPECT_EQ(k.sizes(), proxy.sizes());
      EXPECT_LT(support::distance(k, omdsm_by_svd(proxy, groups)), 1e-11) << proxy.sizes();
      EXPECT_LT(worst_group(k, groups), 1e-11);
      EXPECT_LT(k.flatten(1).mean(1).abs().max().item<double>(), 1e-12);  // rows stay centred
    }
  }
}

TEST(Omdsm, GradientsMatchFiniteDifferences) {
  for (const auto type : kTypes) {
    for (const auto& [shape, size] : std::vector<std::pair<std::vector<int64_t>, int64_t>>{
             {{4, 9}, 0}, {{5, 2, 2, 2}, 2}, {{4, 4}, 0}, {{5, 3}, 0}}) {
      const auto f = [size = size](const Tensor& v) { return stiefel::omdsm(v, {size}); };
      EXPECT_LT(gradient_error(f, torch::randn(shape, type) + 0.5), 1e-7) << at::IntArrayRef(shape) << type;
    }
  }
}

/// Orthonormal centred rows times a scalar: all eigenvalues are equal, and a divided difference taken
/// literally is 0/0.
TEST(Omdsm, GradientsAreRightWhereEigenvaluesRepeat) {
  for (const auto type : kTypes) {
    const auto proxy = 1.7 * stiefel::omdsm(torch::randn({4, 9}, type)) + 0.3;
    EXPECT_LT(gradient_error([](const Tensor& v) { return stiefel::omdsm(v); }, proxy), 1e-7);
  }
}

TEST(Omdsm, FloatIsOrthonormalHoweverTheProxyIsConditioned) {
  EXPECT_LT(defect_of(stiefel::omdsm(torch::randn({64, 576}))), 5e-6);  // reaches 2e-6
  for (const double condition : {1e2, 1e4}) {
    const auto scales = torch::logspace(0, -std::log10(condition), 24).unsqueeze(1);
    const auto mix = std::get<0>(at::linalg_qr(torch::randn({24, 24})));
    const auto proxy = mix.mm(scales * stiefel::omdsm(torch::randn({24, 40}))) + 2;
    EXPECT_LT(defect_of(stiefel::omdsm(proxy)), 1e-6) << condition;  // reaches 1.5e-7
    EXPECT_TRUE(at::isfinite(stiefel::omdsm(proxy)).all().item<bool>());
  }
}

TEST(Omdsm, KeepsTheLayoutOfTheProxy) {
  const auto plain = torch::randn({6, 4, 3, 3}, at::kDouble);
  const auto last = plain.contiguous(at::MemoryFormat::ChannelsLast).requires_grad_(true);
  const auto k = stiefel::omdsm(last);
  EXPECT_TRUE(k.is_contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_FALSE(k.is_contiguous());
  EXPECT_LT(support::distance(k, stiefel::omdsm(plain)), 1e-13);
  // A gradient in another layout than the proxy's reaches the right entries.
  const auto reference = plain.clone().requires_grad_(true);
  const auto c = torch::randn_like(plain);
  torch::autograd::backward({k}, {c});
  torch::autograd::backward({stiefel::omdsm(reference)}, {c});
  EXPECT_LT(support::distance(last.grad(), reference.grad()), 1e-12);
  EXPECT_TRUE(last.grad().is_contiguous(at::MemoryFormat::ChannelsLast));
  // Rows that are columns in memory, and a slice of something larger.
  const auto turned = torch::randn({9, 5}, at::kDouble).t();
  EXPECT_LT(support::distance(stiefel::omdsm(turned), omdsm_by_svd(turned.contiguous(), {5})), 1e-12);
  const auto slice = torch::randn({5, 3, 2, 4}, at::kDouble).narrow(3, 1, 2).transpose(0, 1);
  EXPECT_LT(support::distance(stiefel::omdsm(slice), omdsm_by_svd(slice.contiguous(), {3})), 1e-12);
}

TEST(Omdsm, RefusesWhatItCannotDo) {
  EXPECT_ERROR(stiefel::omdsm(torch::randn({3, 1})), "leaves nothing of rows with 1");
  EXPECT_ERROR(stiefel::omdsm(torch::randn({3})), "two or more dimensions");
  EXPECT_ERROR(stiefel::omdsm(torch::randn({3, 4}), OmdsmOptions{-2}), "got -2");
  EXPECT_ERROR(stiefel::omdsm(torch::zeros({2, 5})), "rank-deficient");
  for (const auto type : {at::kFloat, at::kDouble, at::kComplexFloat}) {
    const auto row = torch::randn({1, 30}, type);
    const auto other = torch::randn({1, 30}, type);
    EXPECT_ERROR(stiefel::omdsm(at::cat({row, other, row + 2 * other})), "rank-deficient");
    EXPECT_ERROR(stiefel::omdsm(at::cat({row, row + 1})), "rank-deficient");  // equal once centred
  }
  auto broken = torch::randn({2, 5});
  broken[1][2] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_ERROR(stiefel::omdsm(broken), "not finite");
  EXPECT_ERROR(
      {
        const auto v = torch::randn({2, 5}).requires_grad_(true);
        torch::autograd::grad({stiefel::omdsm(v).sum()}, {v}, {}, true, true);
      },
      "once only");
}

TEST(Maps, MatchTheirFormulas) {
  for (const auto type : kTypes) {
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{3, 7}, {7, 3}, {5, 5}, {4, 2, 2, 3}, {1, 4}, {1, 1}}) {
      for (const auto map : kMaps) {
        const auto proxy = torch::randn(shape, type);
        const auto q = stiefel::orthonormal_weight(proxy, map);
        EXPECT_LT(support::distance(q, map_by_formula(proxy, map, {})), 1e-12)
            << to_string(map) << at::IntArrayRef(shape) << type;
        EXPECT_LT(defect_of(q), 1e-12);
      }
    }
  }
}

TEST(Maps, StartAtTheWantedWeight) {
  for (const auto type : kTypes) {
    for (const auto& shape :
         std::vector<std::vector<int64_t>>{{3, 7}, {7, 3}, {5, 5}, {4, 2, 2, 3}, {1, 1}}) {
      for (const auto map : kMaps) {
        const auto weight = support::point(shape, type).detach();
        const auto start = stiefel::parametrized_start(weight, map);
        const auto at_start = stiefel::orthonormal_weight(start.proxy, map, start.base);
        EXPECT_LT(support::distance(at_start, weight), 1e-12)
            << to_string(map) << at::IntArrayRef(shape) << type;
        // Away from the start the base still multiplies as the formula says.
        const auto proxy = start.proxy + torch::randn_like(start.proxy);
        EXPECT_LT(support::distance(stiefel::orthonormal_weight(proxy, map, start.base),
                                    map_by_formula(proxy, map, start.base)),
                  1e-12);
      }
    }
  }
}

TEST(Maps, AProxyOfZerosIsTheIdentity) {
  for (const auto map : kMaps) {
    EXPECT_LT(support::distance(stiefel::orthonormal_weight(torch::zeros({3, 5}), map), torch::eye(3, 5)),
              1e-7);
  }
}

TEST(Maps, GradientsMatchFiniteDifferences) {
  for (const auto type : kTypes) {
    for (const auto& shape : std::vector<std::vector<int64_t>>{{3, 5}, {5, 3}, {4, 4}, {2, 2, 2, 2}}) {
      for (const auto map : kMaps) {
        const auto start = stiefel::parametrized_start(support::point(shape, type).detach(), map);
        const auto f = [&](const Tensor& v) { return stiefel::orthonormal_weight(v, map, start.base); };
        EXPECT_LT(gradient_error(f, start.proxy + 0.5 * torch::randn_like(start.proxy)), 1e-7)
            << to_string(map) << at::IntArrayRef(shape) << type;
        EXPECT_LT(gradient_error(f, start.proxy), 1e-7) << to_string(map) << " at the start";
      }
    }
  }
}

TEST(Maps, MemoryFormatChangesNoValue) {
  for (const auto map : kMaps) {
    const auto plain = torch::randn({4, 3, 2, 2}, at::kDouble);
    const auto q = stiefel::orthonormal_weight(plain.contiguous(at::MemoryFormat::ChannelsLast), map);
    EXPECT_LT(support::distance(q, stiefel::orthonormal_weight(plain, map)), 1e-13) << to_string(map);
    EXPECT_TRUE(q.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_FALSE(q.is_contiguous());
  }
}

TEST(Maps, RefuseWhatTheyCannotDo) {
  const auto proxy = torch::randn({3, 5});
  EXPECT_ERROR(stiefel::orthonormal_weight(proxy, Parametrization::kCayley, torch::eye(3)), "[5, 5]");
  EXPECT_ERROR(stiefel::orthonormal_weight(proxy, Parametrization::kHouseholder, torch::eye(5)), "[3]");
  EXPECT_ERROR(stiefel::orthonormal_weight(proxy, Parametrization::kOmdsm, torch::eye(5)), "no base");
  EXPECT_ERROR(stiefel::orthonormal_weight(torch::randn({3}), Parametrization::kCayley), "two or more");
  EXPECT_ERROR(stiefel::parametrized_start(proxy, Parametrization::kMatrixExp), "orthonormal first");
  EXPECT_ERROR(stiefel::parametrization_from_string("qr"), "choose omdsm, matrix-exp, cayley or householder");
}

TEST(Maps, NamesRoundTrip) {
  for (const auto map : kAll) EXPECT_EQ(stiefel::parametrization_from_string(to_string(map)), map);
  EXPECT_EQ(to_string(Parametrization::kMatrixExp), "matrix-exp");
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
TEST(Maps, GoByTheirEarlierNamesToo) {
  const stiefel::Parametrisation map = stiefel::parametrisation_from_string("cayley");
  EXPECT_EQ(map, stiefel::Parametrisation::kCayley);
  const auto weight = stiefel::init::haar_(torch::empty({3, 5}));
  const stiefel::ParametrisedStart start = stiefel::parametrised_start(weight, map);
  EXPECT_LT(support::distance(stiefel::orthonormal_weight(start.proxy, map, start.base), weight), 1e-5);
  stiefel::nn::ParametrisedLinear layer(5, 3, map);
  EXPECT_EQ(layer->parametrisation(), map);
}
#pragma GCC diagnostic pop

}  // namespace parametrizations_test
