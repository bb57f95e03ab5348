#include <stiefel/penalties.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "algebra.h"
#include "compat.h"
#include "names.h"
#include "weight_batches.h"

namespace stiefel {

namespace {

using detail::WeightBatches;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr detail::Names<Penalty, 3> kPenalties{{
    {Penalty::kSo, "so"},
    {Penalty::kDso, "dso"},
    {Penalty::kSrip, "srip"},
}};

/// What a batch saves for the backward pass.
struct SavedForBackward {
  at::Tensor k;      ///< (B, p, n)
  at::Tensor left;   ///< SO: E (B, p, p). SRIP: v₀ … v_r as columns (B, p, r + 1)
  at::Tensor right;  ///< SRIP: the rows v₀ᴴK … v_{r−1}ᴴK (B, r, n)
  at::Tensor sigma;  ///< SRIP: σ₁ … σ_r (B, r, 1)
};

constexpr size_t kSavedTensors = 4;  // of SavedForBackward

/// ‖E‖²_F of each matrix, E = KKᴴ − I.
at::Tensor so_values(SavedForBackward& saved) {
  saved.left = detail::drift(saved.k);
  return detail::frobenius(saved.left).square();
}

/// 4gEK: with E Hermitian, d tr E² = 2 Re tr E(dK Kᴴ + K dKᴴ) = Re tr (4EK)ᴴdK.
at::Tensor& so_gradient(const SavedForBackward& saved, const at::Tensor& g, at::Tensor& out) {
  return at::bmm_out(out, saved.left * (g * 4), saved.k);
}

/// 1/σ, and 0 where σ = 0.
at::Tensor inverse_of(const at::Tensor& sigma) { return sigma.reciprocal().masked_fill_(sigma == 0, 0); }

/// Em = K(mᴴK)ᴴ − m for a column m whose row mᴴK is at hand. Rows, since Kᴴm would copy a complex K.
at::Tensor apply_drift(const at::Tensor& k, const at::Tensor& row, const at::Tensor& m) {
  return at::bmm(k, row.mH()).sub_(m);
}

/// The power iteration uᵢ = Evᵢ₋₁, σᵢ = ‖uᵢ‖, vᵢ = uᵢ/σᵢ for i = 1 … r; σ_r of each matrix. `start` is
/// (B, p, 1), of any length.
at::Tensor srip_values(SavedForBackward& saved, const at::Tensor& start, int64_t rounds) {
  const auto length = [](const at::Tensor& u) {
    return at::linalg_vector_norm(u, 2, at::IntArrayRef({1}), /*keepdim=*/true);
  };
  std::vector<at::Tensor> v{start * inverse_of(length(start))};
  std::vector<at::Tensor> rows;
  std::vector<at::Tensor> sigma;
  for (int64_t i = 0; i < rounds; ++i) {
    rows.push_back(at::bmm(v[i].mH(), saved.k));
    const auto u = apply_drift(saved.k, rows[i], v[i]);
    sigma.push_back(length(u));
    v.push_back(u * inverse_of(sigma[i]));
  }
  saved.left = at::cat(v, 2);
  saved.right = at::cat(rows, 1);
  saved.sigma = at::cat(sigma, 1);
  return sigma.back().flatten().to(at::kDouble);
}

/// The gradient of σ_r through all rounds. With ūᵢ the adjoint of uᵢ,
///
///     ū_r = v_r,   ū_{r−1} = (Ev_r − σ_r v_{r−1})/σ_{r−1},   ūᵢ = Eūᵢ₊₁/σᵢ below:
///
/// going back through v = u/‖u‖ takes off the part along vᵢ, Re vᵢᴴEūᵢ₊₁ = σᵢ₊₁ Re vᵢ₊₁ᴴūᵢ₊₁, which is σ_r
/// for i = r − 1 and nothing further down, where ūᵢ₊₁ is free of vᵢ₊₁ already. Each uᵢ = (KKᴴ − I)vᵢ₋₁ adds
/// ūᵢvᵢ₋₁ᴴK + vᵢ₋₁ūᵢᴴK. The rows vᵢ₋₁ᴴK are saved, the rows ūᵢᴴK fall out of the recurrence, and all of it is
/// one product of [ū₁ … ū_r v₀ … v_{r−1}] (p×2r) by these rows (2r×n).
at::Tensor& srip_gradient(const SavedForBackward& saved, const at::Tensor& g, at::Tensor& out) {
  const int64_t rounds = saved.right.size(1);
  const auto v = [&](int64_t i) { return saved.left.narrow(2, i, 1); };
  const auto sigma = [&](int64_t i) { return saved.sigma.narrow(1, i - 1, 1); };
  std::vector<at::Tensor> left(rounds + 1, saved.left.narrow(2, 0, rounds));
  std::vector<at::Tensor> right(rounds + 1, saved.right);
  // left[i − 1] is ūᵢ and right[i] is ūᵢᴴK, so that left·right pairs ūᵢ with vᵢ₋₁ᴴK and vᵢ₋₁ with ūᵢᴴK.
  left[rounds - 1] = v(rounds);
  for (int64_t i = rounds;; --i) {
    const auto& mine = left[i - 1];
    right[i] = at::bmm(mine.mH(), saved.k);
    if (i == 1) break;
    auto next = apply_drift(saved.k, right[i], mine);
    if (i == rounds) next.sub_(v(rounds - 1) * sigma(rounds));
    left[i - 2] = next.mul_(inverse_of(sigma(i - 1)));
  }
  return at::bmm_out(out, at::cat(left, 2) * g, at::cat(right, 1));
}

/// SRIP's start vectors for each group of matrices, (B, p, 1).
variable_list draw(at::TensorList weights, const WeightBatches& batches, const PenaltyOptions& options) {
  variable_list all;
  for (const auto& group : batches.groups()) {
    const size_t i = group.members[0];
    all.push_back(at::randn({group.count, batches.view(i).p(), 1}, aten_generator(options.generator),
                            weights[i].options().dtype(detail::arithmetic(weights[i]))));
  }
  return all;
}

/// The penalty of each matrix, in double. `start` is for SRIP only.
at::Tensor values_of(Penalty kind, SavedForBackward& saved, const at::Tensor& start, int64_t rounds) {
  switch (kind) {
    case Penalty::kSo:
      return so_values(saved);
    case Penalty::kDso:
      // KᴴK has the eigenvalues of KKᴴ and n − p zeros, so ‖KᴴK − I‖²_F = ‖KKᴴ − I‖²_F + n − p.
      return so_values(saved).mul_(2).add_(static_cast<double>(saved.k.size(2) - saved.k.size(1)));
    case Penalty::kSrip:
      break;
  }
  return srip_values(saved, start, rounds);
}

/// g times the gradient of each matrix, into `out` (B, p, n).
void gradient_of(Penalty kind, const SavedForBackward& saved, const at::Tensor& g, at::Tensor& out) {
  switch (kind) {
    case Penalty::kSo:
      so_gradient(saved, g, out);
      break;
    case Penalty::kDso:
      so_gradient(saved, 2 * g, out);
      break;
    case Penalty::kSrip:
      srip_gradient(saved, g, out);
      break;
  }
}

/// The sum of a penalty over a list, differentiable once.
struct PenaltySum : torch::autograd::Function<PenaltySum> {
  static at::Tensor forward(AutogradContext* ctx, at::TensorList weights, Penalty kind,
                            const PenaltyOptions& options) {
    const WeightBatches batches(weights, options.batched);
    const auto starts = kind == Penalty::kSrip ? draw(weights, batches, options) : variable_list{};
    std::vector<SavedForBackward> saved_by_batch(batches.all().size());
    std::vector<at::Tensor> values(saved_by_batch.size());
    batches.for_each([&](size_t c) {
      const auto& batch = batches.all()[c];
      saved_by_batch[c].k = batches.gather(batch);
      const auto start =
          starts.empty() ? at::Tensor() : starts[batch.group].narrow(0, batch.offset, batch.count);
      values[c] = values_of(kind, saved_by_batch[c], start, options.rounds).sum();
    });
    // The weights themselves too, so that LibTorch notices one that is changed before the backward pass.
    variable_list saved(weights.begin(), weights.end());
    for (const auto& one : saved_by_batch) saved.insert(saved.end(), {one.k, one.left, one.right, one.sigma});
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["count"] = static_cast<int64_t>(weights.size());
    ctx->saved_data["kind"] = static_cast<int64_t>(kind);
    ctx->saved_data["batched"] = options.batched;
    const bool wide = std::any_of(weights.begin(), weights.end(), [](const at::Tensor& weight) {
      return c10::toRealValueType(weight.scalar_type()) == at::kDouble;
    });
    return at::stack(values).sum().to(wide ? at::kDouble : at::kFloat);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& outer) {
    TORCH_CHECK(!at::GradMode::is_enabled(),
                "stiefel: the penalties have no second derivative; call backward without create_graph");
    const auto saved = ctx->get_saved_variables();
    const auto count = static_cast<size_t>(ctx->saved_data["count"].toInt());
    const auto kind = static_cast<Penalty>(ctx->saved_data["kind"].toInt());
    const at::TensorList weights(saved.data(), count);
    const WeightBatches batches(weights, ctx->saved_data["batched"].toBool());
    // Asked on this thread: others have no record of what the pass is for.
    std::vector<char> needed(count);
    for (size_t i = 0; i < count; ++i) needed[i] = ctx->needs_input_grad(i);

    variable_list gradients(count + 2);  // two more, for the arguments that are no tensors
    // A weight that stands alone has its gradient computed in place, where its layout allows.
    variable_list alone(count);
    for (const auto& batch : batches.all()) {
      const size_t i = batch.entries[0];
      if (!batch.is_one_entry() || batch.first > 0 || !needed[i]) continue;
      gradients[i] = at::empty_like(weights[i], weights[i].options().dtype(detail::arithmetic(weights[i])));
      alone[i] = batches.view(i)(gradients[i]);
    }
    batches.for_each([&](size_t c) {
      const auto& batch = batches.all()[c];
      const auto& members = batch.entries;
      if (std::none_of(members.begin(), members.end(), [&](size_t i) { return needed[i]; })) return;
      const auto* from = &saved[count + c * kSavedTensors];
      const SavedForBackward mine{from[0], from[1], from[2], from[3]};
      auto out = batch.is_one_entry() ? alone[members[0]].narrow(0, batch.first, batch.count)
                                      : at::empty(mine.k.sizes(), mine.k.options());
      gradient_of(kind, mine, outer[0].to(c10::toRealValueType(out.scalar_type())), out);
      if (batch.is_one_entry()) return;
      int64_t first = 0;
      for (const size_t i : members) {
        const int64_t matrices = batches.view(i).batch();
        if (needed[i]) gradients[i] = batches.home(out.narrow(0, first, matrices), i);
        first += matrices;
      }
    });
    for (size_t i = 0; i < count; ++i) {
      if (alone[i].defined()) batches.view(i).write(alone[i], gradients[i]);
    }
    return gradients;  // LibTorch brings those of half weights to their type
  }
};

}  // namespace

std::string to_string(Penalty kind) { return detail::name_of(kPenalties, kind, "penalty"); }
Penalty penalty_from_string(const std::string& name) { return detail::value_of(kPenalties, name, "penalty"); }

void PenaltyOptions::validate() const {
  TORCH_CHECK(rounds >= 1 && rounds <= 1000, "stiefel: rounds must lie in [1, 1000]; got ", rounds);
}

at::Tensor penalty(Penalty kind, at::TensorList weights, const PenaltyOptions& options) {
  options.validate();
  TORCH_CHECK(!weights.empty(), "stiefel: a penalty needs at least one weight; the list is empty");
  for (const auto& weight : weights) {
    TORCH_CHECK(weight.defined(), "stiefel: a weight in the list of a penalty is undefined");
    TORCH_CHECK(weight.layout() == at::kStrided, "stiefel: a penalty needs dense weights; got one of layout ",
                weight.layout());
    TORCH_CHECK(weight.is_floating_point() || weight.is_complex(),
                "stiefel: a penalty needs real or complex weights; got ", weight.scalar_type());
    TORCH_CHECK(weight.device() == weights[0].device(), "stiefel: the weights of one penalty lie on ",
                weights[0].device(), " and ", weight.device(), "; add up one penalty a device");
  }
  return PenaltySum::apply(weights, kind, options);
}

at::Tensor so_penalty(const at::Tensor& weight, bool batched) {
  PenaltyOptions options;
  options.batched = batched;
  return penalty(Penalty::kSo, {weight}, options);
}

at::Tensor dso_penalty(const at::Tensor& weight, bool batched) {
  PenaltyOptions options;
  options.batched = batched;
  return penalty(Penalty::kDso, {weight}, options);
}

at::Tensor srip_penalty(const at::Tensor& weight, const PenaltyOptions& options) {
  return penalty(Penalty::kSrip, {weight}, options);
}

}  // namespace stiefel
