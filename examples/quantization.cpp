// A rotation that makes a weight matrix easier to quantise.
//
// A layer computes Wx. With any orthogonal R it can compute (WR)(Rᵀx) instead and store WR in 4 bits. Where a
// few columns of W are much larger than the rest they set the step of the rounding, and the rest is lost;
// rotated, they are spread over all columns. A random Hadamard matrix does that for any W. Here we learn the
// R that does it best for this W, on the manifold of orthogonal matrices.
//
// What to minimise? The error ‖WR − Q(WR)‖² itself, by its own derivative: with k the rounded integers and s
// the step of a row, its squared error is ‖y − sk‖². Autograd takes the derivative of rounding as zero, so k
// is held fixed, which is right except where an entry changes its k. What is left pulls each entry towards
// its grid point and each row's largest entry, which sets s, down. A straight-through gradient (rounding as
// the identity) drops the first of these and ends at a larger error: docs/examples.md has the figures.

#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <cmath>
#include <cstdio>

using torch::Tensor;

constexpr int64_t kRows = 256;
constexpr int64_t kColumns = 128;
constexpr int kLevels = 7;  // signed 4 bits: −7 … 7

/// W in 4 bits and back: each row has a step of its own, and its largest entry is ±7 steps.
Tensor quantize(const Tensor& w) {
  const auto step = w.abs().amax(1, /*keepdim=*/true) / kLevels;
  return (w / step).round() * step;
}

/// ‖W − Q(W)‖ / ‖W‖.
double error(const Tensor& w) { return ((w - quantize(w)).norm() / w.norm()).item<double>(); }

int main() {
  torch::manual_seed(1);

  // Gaussian weights, eight columns of which are ten times larger.
  auto scale = torch::ones({kColumns});
  scale.index_fill_(0, torch::randperm(kColumns).slice(0, 0, 8), 10);
  const auto w = torch::randn({kRows, kColumns}) * scale;

  // A random Hadamard matrix: Sylvester's, each row with a random sign.
  auto hadamard = torch::empty({kColumns, kColumns});
  stiefel::init::hadamard_(hadamard);
  hadamard *= torch::randint(2, {kColumns, 1}) * 2 - 1;

  // The relative error is small and so is its gradient, hence the large rate.
  auto r = hadamard.clone().requires_grad_();
  const int steps = 600;
  stiefel::CayleySGD optimizer({r}, stiefel::CayleySGDOptions(20).momentum(0.9));
  const stiefel::Schedule schedule(optimizer, stiefel::schedules::cosine(steps));
  for (int step = 0; step < steps; ++step) {
    schedule.apply(optimizer, step);
    optimizer.zero_grad();
    const auto rotated = w.mm(r);
    const auto loss = (rotated - quantize(rotated)).square().sum() / w.square().sum();  // ‖WR‖ = ‖W‖
    loss.backward();
    optimizer.step();
    if (step % 100 == 0) std::printf("step %3d: error %.4f\n", step, std::sqrt(loss.item<double>()));
  }
  r = r.detach();

  const double plain = error(w), random = error(w.mm(hadamard)), learned = error(w.mm(r));
  std::printf("relative error of 4 bits\n");
  std::printf("  W as it is                 %.4f\n", plain);
  std::printf("  a random Hadamard matrix   %.4f\n", random);
  std::printf("  the learned rotation       %.4f\n", learned);
  const double defect = stiefel::defect(r).item<double>();
  std::printf("‖RᵀR − I‖ = %.1e\n", defect);

  const bool good = learned < 0.6 * random && random < plain && defect < 1e-5;
  std::printf("%s\n",
              good ? "the learned rotation is the best" : "FAILED: the learned rotation is not the best");
  return good ? 0 : 1;
}
