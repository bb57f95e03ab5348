#include <stiefel/stiefel.h>

#include "reference.h"
#include "tests/support.h"

// Large matrices take Gram products by panels and transposed sums by tiles; one step of each kind against the
// dense reference.

namespace large_test {

struct Case {
  std::vector<int64_t> shape;
  at::ScalarType type;
  bool polish;
};

TEST(Large, OneStepEqualsTheReference) {
  const auto real = at::kDouble;
  for (const auto& c : {Case{{256, 520}, real, true},
                        {{300, 400}, at::kComplexDouble, true},
                        {{530, 600}, real, true},
                        {{530, 600}, real, false},
                        {{530, 530}, real, true},
                        {{520, 520}, at::kComplexDouble, true}}) {
    const auto weight = reference::orthonormal_weight(c.shape, false, c.type).requires_grad_();
    reference::Point point(reference::tall(weight, false)[0]);
    reference::Options options;
    options.rate = 0.1;
    options.polish = c.polish;
    stiefel::CayleySGD optimizer({weight}, stiefel::CayleySGDOptions(0.1).momentum(0.9).polish(c.polish));
    const auto gradient = torch::randn_like(weight);
    support::set_gradient(weight, gradient / gradient.abs().square().sum().sqrt());
    optimizer.step();
    reference::sgd_step(point, reference::tall(weight.grad(), false)[0], options);
    EXPECT_LT(support::distance(reference::tall(weight, false)[0], point.x), 1e-13) << c.shape;
  }
}

}  // namespace large_test
