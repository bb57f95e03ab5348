#include <stiefel/cayley.h>
#include <stiefel/init.h>
#include <stiefel/manifold.h>
#include <stiefel/optim/retraction_sgd.h>
#include <stiefel/retractions.h>
#include <torch/library.h>

#include <functional>
#include <optional>
#include <string>

#include "step_matrices.h"

// What other front ends than C++ need beside the steps of Cayley SGD and Cayley ADAM, as operators of the
// dispatcher: the tangent projection, retractions and initialisers.

namespace stiefel {

namespace {

/// The step of a policy, and how far off the manifold it may leave points.
struct NamedDescent {
  std::function<void(const Descent&)> move;
  double largest_defect;
};

/// By the name that the command and the documents give it.
NamedDescent descent_by_name(const std::string& name, int64_t rounds) {
  const auto with = [](const auto& policy) -> NamedDescent {
    return {[policy](const Descent& descent) { policy.descend_(descent); }, detail::largest_defect(policy)};
  };
  if (name == "polar") return with(Polar{});
  if (name == "polar-ns") {
    const Polar policy{Polar::By::kNewtonSchulz, rounds};
    policy.validate();
    return with(policy);
  }
  if (name == "qr") return with(Qr{});
  if (name == "cholesky-qr") return with(Qr{Qr::By::kCholesky});
  if (name == WenYin::kName) return with(WenYin{});
  if (name == CayleyClosed::kName) return with(CayleyClosed{});
  if (name == CayleyExact::kName) return with(CayleyExact{});
  if (name == Pogo::kName) return with(Pogo{});
  if (name == Landing::kName) return with(Landing{});
  TORCH_CHECK(false, "stiefel: no retraction is called '", name,
              "'; it is polar, polar-ns, qr, cholesky-qr, wen-yin, cayley-closed, cayley-exact, pogo or "
              "landing");
}

void retraction_sgd_kernel(at::TensorList points, at::TensorList momenta, at::TensorList gradients,
                           at::Tensor skipped, const at::Tensor& rate, double momentum,
                           c10::string_view retraction, int64_t rounds, bool batched,
                           const c10::optional<at::Tensor>& off_manifold) {
  const auto descent = descent_by_name(std::string(retraction), rounds);
  if (momentum != 0) detail::check_momenta(points, momenta);
  detail::retraction_sgd_(points, momenta, gradients, skipped, off_manifold.value_or(at::Tensor()), rate,
                          momentum, batched, descent.largest_defect, descent.move);
}

at::Tensor cayley_retraction_kernel(const at::Tensor& point, const at::Tensor& direction, double q,
                                    double eps, int64_t iterations, bool exact, c10::string_view norm,
                                    bool polish, bool batched) {
  const CayleyOptions options{q, eps, iterations, exact, norm_from_string(std::string(norm)), polish};
  return cayley_retraction(point, direction, options, batched);
}

std::optional<at::Generator> std_generator(const c10::optional<at::Generator>& generator) {
  return generator ? std::optional<at::Generator>(*generator) : std::nullopt;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(stiefel, library) {
  library.def(
      "retraction_sgd_(Tensor(a!)[] points, Tensor(b!)[] momenta, Tensor[] gradients, Tensor(c!) skipped, "
      "Tensor rate, float momentum=0.0, str retraction='polar', int rounds=12, bool batched=False, "
      "Tensor(d!)? off_manifold=None) -> ()");
  library.def("project_tangent(Tensor weight, Tensor vector, bool batched=False) -> Tensor");
  library.def(
      "cayley_retraction(Tensor point, Tensor direction, float q=0.5, float eps=1e-8, int iterations=2, "
      "bool exact=False, str norm='frobenius', bool polish=True, bool batched=False) -> Tensor");
  library.def("haar_(Tensor(a!) weight, bool batched=False, Generator? generator=None) -> Tensor(a!)");
  library.def("identity_(Tensor(a!) weight, bool batched=False) -> Tensor(a!)");
  library.def("hadamard_(Tensor(a!) weight, bool batched=False) -> Tensor(a!)");
  library.def(
      "block_rotation_(Tensor(a!) weight, bool batched=False, Generator? generator=None) -> Tensor(a!)");
}

TORCH_LIBRARY_IMPL(stiefel, CompositeExplicitAutograd, library) {
  library.impl("retraction_sgd_", retraction_sgd_kernel);
  library.impl("project_tangent", [](const at::Tensor& weight, const at::Tensor& vector, bool batched) {
    return project_tangent(weight, vector, batched);
  });
  library.impl("cayley_retraction", cayley_retraction_kernel);
  library.impl("haar_", [](at::Tensor weight, bool batched, const c10::optional<at::Generator>& generator) {
    return init::haar_(weight, batched, std_generator(generator));
  });
  library.impl("identity_", [](at::Tensor weight, bool batched) { return init::identity_(weight, batched); });
  library.impl("hadamard_", [](at::Tensor weight, bool batched) { return init::hadamard_(weight, batched); });
  library.impl("block_rotation_",
               [](at::Tensor weight, bool batched, const c10::optional<at::Generator>& generator) {
                 return init::block_rotation_(weight, batched, std_generator(generator));
               });
}

}  // namespace stiefel
