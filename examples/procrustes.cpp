// Orthogonal Procrustes: the orthogonal matrix that turns one cloud of points onto another,
//
//     min ‖AX − B‖²_F  over XᵀX = I.
//
// Linear algebra knows the answer, X = UVᵀ where AᵀB = UΣVᵀ, so this shows how close two optimisers come:
// Cayley SGD, as one would train a network, and the curvilinear search, which needs exact gradients and
// finds its own step sizes.

#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <cstdio>

using torch::Tensor;

int main() {
  torch::manual_seed(1);
  const int64_t points = 100, n = 10;

  // B is A turned by an orthogonal matrix, and a little noise. Over √points, AᵀA is about the identity, and
  // a rate that suits this cloud suits a larger one.
  const auto a = torch::randn({points, n}, torch::kDouble) / 10;
  auto turn = torch::empty({n, n}, torch::kDouble);
  stiefel::init::haar_(turn);
  const auto b = a.mm(turn) + 0.01 * torch::randn_like(a);
  const auto distance = [&](const Tensor& x) { return (a.mm(x) - b).square().sum(); };

  const auto [u, s, vt] = torch::linalg_svd(a.t().mm(b));
  const auto answer = u.mm(vt);

  // Real orthogonal matrices have determinant 1 or −1, and no path leads from one kind to the other. The
  // answer is of the kind of AᵀB; a start of the other kind would end at the best matrix of its own.
  auto start = torch::empty({n, n}, torch::kDouble);
  stiefel::init::haar_(start);
  if ((torch::linalg_det(start) * torch::linalg_det(a.t().mm(b))).item<double>() < 0) start[0].neg_();

  std::printf("                      evaluations      ‖AX − B‖²    ‖X − UVᵀ‖    ‖XᵀX − I‖\n");
  bool good = true;
  const auto report = [&](const char* name, int evaluations, const Tensor& x) {
    const double apart = (x - answer).norm().item<double>();
    const double defect = stiefel::defect(x).item<double>();
    std::printf("%-20s %12d %14.10f %12.1e %12.1e\n", name, evaluations, distance(x).item<double>(), apart,
                defect);
    good = good && apart < 1e-6 && defect < 1e-12;
  };
  report("SVD", 0, answer);

  // Cayley SGD: the loop of any LibTorch optimiser.
  auto x = start.clone().requires_grad_();
  stiefel::CayleySGD sgd({x}, stiefel::CayleySGDOptions(0.1).momentum(0.9));
  for (int step = 0; step < 500; ++step) {
    sgd.zero_grad();
    distance(x).backward();
    sgd.step();
  }
  report("Cayley SGD", 500, x.detach());

  // The search may look at several points in a step, so it evaluates the function itself, as LBFGS does. It
  // moves along the exact Cayley curve, and CayleyExact also takes off what rounding adds to ‖XᵀX − I‖.
  auto y = start.clone().requires_grad_();
  stiefel::CurvilinearSearch<stiefel::CayleyExact> search({y}, 0.01);  // 0.01: only the first step's length
  int evaluations = 0;
  for (int step = 0; step < 30; ++step) {
    search.step([&] {
      ++evaluations;
      search.zero_grad();
      auto loss = distance(y);
      loss.backward();
      return loss;
    });
  }
  report("curvilinear search", evaluations, y.detach());

  std::printf("%s\n", good ? "both found the SVD's answer" : "FAILED: an answer is not the SVD's");
  return good ? 0 : 1;
}
