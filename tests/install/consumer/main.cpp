#include <stiefel/optim/cayley_adam.h>
#include <stiefel/stiefel.h>

#include <cstdio>

int main() {
  auto weight = at::empty({16, 64});
  stiefel::init::haar_(weight);
  weight.requires_grad_();
  stiefel::CayleyAdam optimizer({weight}, stiefel::CayleyAdamOptions(0.4).betas({0.9, 0.99}));
  for (int step = 0; step < 10; ++step) {
    weight.mutable_grad() = at::randn({16, 64});
    optimizer.step();
  }
  const double defect = stiefel::defect(weight).item<double>();
  std::printf("defect %g\n", defect);
  return defect < 1e-5 ? 0 : 1;
}
