// Joint diagonalisation: complex matrices that were made with one unitary U,
//
//     A_k = U D_k Uᴴ + noise,  D_k diagonal,
//
// and U is to be found from them. Each A_k alone tells it, by its eigenvectors, as well as its closest
// eigenvalues allow; together they tell it better. So we look for the unitary X under which all of them are
// as diagonal as can be: the least sum of squares off the diagonals of XᴴA_kX.
//
// The order of U's columns and the phase of each cannot be known: any choice gives the same A_k. Distances
// are therefore measured after both have been matched.

#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <cstdio>

using torch::Tensor;

/// ‖XPΦ − U‖_F for the permutation P and the phases Φ that bring X's columns closest to U's.
double distance_up_to_symmetry(const Tensor& x, const Tensor& u) {
  const auto products = x.mH().mm(u);           // entry (i, j): column i of X against column j of U
  const auto match = products.abs().argmax(0);  // for each column of U, its nearest of X
  const auto entries = products.gather(0, match.unsqueeze(0));
  const auto phases = entries / entries.abs();
  return (x.index_select(1, match) * phases - u).norm().item<double>();
}

int main() {
  torch::manual_seed(1);
  const int64_t n = 8, matrices = 8;
  const double noise = 0.01;

  auto u = torch::empty({n, n}, torch::kComplexDouble);
  stiefel::init::haar_(u);
  const auto eigenvalues = torch::randn({matrices, n}, torch::kComplexDouble);
  const auto a = torch::matmul(u, eigenvalues.unsqueeze(2) * u.mH()) +
                 noise * torch::randn({matrices, n, n}, torch::kComplexDouble);

  const auto off_diagonal = [&](const Tensor& x) {
    const auto turned = torch::matmul(x.mH(), torch::matmul(a, x));
    const auto off = turned - torch::diag_embed(turned.diagonal(0, 1, 2));
    return torch::view_as_real(off).square().sum() / matrices;
  };

  // A complex parameter is trained as a real one is: the loss is real, and backward() leaves a complex
  // gradient. Unlike the real orthogonal matrices the unitary ones are connected, so any start will do.
  auto x = torch::empty({n, n}, torch::kComplexDouble);
  stiefel::init::haar_(x);
  x.requires_grad_();
  stiefel::CayleySGD optimizer({x}, stiefel::CayleySGDOptions(0.02).momentum(0.9));
  for (int step = 0; step <= 400; ++step) {
    optimizer.zero_grad();
    auto loss = off_diagonal(x);
    if (step % 100 == 0) std::printf("step %4d: off the diagonals %.6f\n", step, loss.item<double>());
    loss.backward();
    optimizer.step();
  }
  x = x.detach();

  const auto [values, vectors] = torch::linalg_eig(a[0]);
  const double alone = distance_up_to_symmetry(vectors, u);
  const double together = distance_up_to_symmetry(x, u);
  const double defect = stiefel::defect(x).item<double>();
  std::printf("off the diagonals at the true U      %.6f\n", off_diagonal(u).item<double>());
  std::printf("distance to U, all matrices          %.4f\n", together);
  std::printf("distance to U, eigenvectors of A_1   %.4f\n", alone);
  std::printf("‖XᴴX − I‖                            %.1e\n", defect);

  const bool good = together < 0.05 && together < alone && defect < 1e-12;
  std::printf("%s\n", good ? "U was found, to the noise" : "FAILED: U was not found");
  return good ? 0 : 1;
}
