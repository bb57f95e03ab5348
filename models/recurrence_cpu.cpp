#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <c10/util/complex.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "activation_rows.h"
#include "recurrence_steps.h"

// The recurrence on the CPU. The rows of a batch are shared out to the threads; a thread's loop holds one
// product a step and loops over rows that are still in its cache, and allocates nothing.

namespace stiefel::models::detail {

namespace {

/// The layer and its inputs as a thread's loop sees them; Real is the real type.
template <class Real>
class Rows {
 public:
  Rows(const at::Tensor& inputs, const Recurrence& layer)
      : inputs_(inputs.data_ptr<Real>()),
        v_(reals(layer.v)),
        b_(layer.b.data_ptr<Real>()),
        steps_(inputs.size(0)),
        batch_(inputs.size(1)),
        width_(inputs.size(2)),
        n_(layer.k.size(0)),
        parts_(layer.k.is_complex() ? 2 : 1),
        activation_(layer.activation) {}

  /// A tensor's memory as reals.
  static Real* reals(const at::Tensor& t) { return static_cast<Real*>(t.data_ptr()); }

  /// z_t of rows [from, to) ← x_tVᵀ.
  void put_inputs(int64_t t, int64_t from, int64_t to, Real* z) const {
    const int64_t length = n_ * parts_;
    for (int64_t i = from; i < to; ++i, z += length) {
      const Real* x = inputs_ + (t * batch_ + i) * width_;
      if (width_ == 1) {
        for (int64_t j = 0; j < length; ++j) z[j] = x[0] * v_[j];
        continue;
      }
      std::fill(z, z + length, Real(0));
      for (int64_t d = 0; d < width_; ++d) {
        if (x[d] == 0) continue;  // one-hot inputs have one entry
        for (int64_t j = 0; j < n_; ++j) {
          for (int64_t c = 0; c < parts_; ++c) z[parts_ * j + c] += x[d] * v_[parts_ * (j * width_ + d) + c];
        }
      }
    }
  }

  void activate(const Real* z, int64_t rows, Real* h) const {
    const int64_t length = n_ * parts_;
    for (int64_t i = 0; i < rows; ++i) {
      const ActivationRow<Real> row{z + i * length, b_, n_, parts_ == 2};
      activation_ == Activation::kTanh ? tanh_row(row, h + i * length) : mod_relu(row, h + i * length);
    }
  }

  void slope(const Real* z, const Real* g, int64_t rows, Real* delta, Real* db) const {
    const int64_t length = n_ * parts_;
    for (int64_t i = 0; i < rows; ++i) {
      const ActivationRow<Real> row{z + i * length, b_, n_, parts_ == 2};
      const auto step =
          activation_ == Activation::kTanh
              ? static_cast<void (*)(const ActivationRow<Real>&, const Real*, Real*, Real*)>(tanh_slope)
              : static_cast<void (*)(const ActivationRow<Real>&, const Real*, Real*, Real*)>(mod_relu_slope);
      step(row, g + i * length, delta + i * length, db);
    }
  }

 private:
  const Real* inputs_;
  const Real* v_;
  const Real* b_;
  int64_t steps_, batch_, width_, n_, parts_;
  Activation activation_;
};

/// Calls body(from, to) for each thread's rows.
template <class Body>
void for_rows(int64_t batch, const Body& body) {
  const int64_t threads = std::max<int64_t>(1, std::min<int64_t>(at::get_num_threads(), batch));
  const int64_t share = (batch + threads - 1) / threads;
  at::parallel_for(0, batch, share, [&](int64_t from, int64_t to) {
    const at::NoGradGuard no_grad;  // a thread's own
    body(from, to);
  });
}

template <class Real>
Forward forward(const at::Tensor& inputs, const Recurrence& layer, bool all_states) {
  const int64_t steps = inputs.size(0), batch = inputs.size(1), n = layer.k.size(0);
  const Rows<Real> rows(inputs, layer);
  auto z = at::empty({steps, batch, n}, layer.k.options());
  auto states = at::empty(all_states ? at::IntArrayRef({steps, batch, n}) : at::IntArrayRef({batch, n}),
                          layer.k.options());
  const auto kt = layer.k.t();
  for_rows(batch, [&](int64_t from, int64_t to) {
    const int64_t count = to - from;
    // A copy always: one row, expanded, would be h₀ itself, and the loop writes into h.
    auto h = layer.h0.expand({count, n}).clone(at::MemoryFormat::Contiguous);
    for (int64_t t = 0; t < steps; ++t) {
      auto now = z.select(0, t).narrow(0, from, count);
      rows.put_inputs(t, from, to, Rows<Real>::reals(now));
      now.addmm_(h, kt);  // z_t = H_{t−1}Kᵀ + x_tVᵀ
      if (all_states || t + 1 == steps)
        h = (all_states ? states.select(0, t) : states).narrow(0, from, count);
      rows.activate(Rows<Real>::reals(now), count, Rows<Real>::reals(h));
    }
  });
  return {z, states};
}

/// The steps whose δ and h are gathered before they are multiplied: enough for the product to run at full
/// rate, few enough to stay in cache.
int64_t gathered_steps(int64_t rows, int64_t n) {
  constexpr int64_t kNumbers = 1 << 17;
  return std::max<int64_t>(1, kNumbers / (rows * n));
}

template <class Real>
Backward backward(const at::Tensor& inputs, const Recurrence& layer, const at::Tensor& z,
                  const at::Tensor& gradient, bool all_states, bool with_inputs) {
  const int64_t steps = inputs.size(0), batch = inputs.size(1), n = layer.k.size(0), width = inputs.size(2);
  const Rows<Real> rows(inputs, layer);
  const auto k_conj = layer.k.conj().resolve_conj();
  const auto v_conj = layer.v.conj().resolve_conj();
  Backward result;
  if (with_inputs) result.inputs = at::empty_like(inputs);
  // Each share of the rows has sums of its own, added in their order at the end so that runs repeat.
  std::vector<std::pair<int64_t, Backward>> shares;
  std::mutex entering;
  for_rows(batch, [&](int64_t from, int64_t to) {
    const int64_t count = to - from;
    Backward mine;
    mine.k = at::zeros_like(layer.k);
    mine.v = at::zeros_like(layer.v);
    mine.b = at::zeros_like(layer.b);
    auto g = at::empty({count, n}, z.options());
    g.copy_((all_states ? gradient.select(0, steps - 1) : gradient).narrow(0, from, count));
    const int64_t most = std::min(steps, gathered_steps(count, n));
    auto deltas = at::empty({most, count, n}, z.options());
    auto before = at::empty({most, count, n}, z.options());
    int64_t filled = 0;  // from the back
    const auto spend = [&](int64_t first) {
      const auto all = [&](const at::Tensor& t) {
        return t.narrow(0, most - filled, filled).reshape({filled * count, -1});
      };
      const auto flat = all(deltas);
      mine.k.addmm_(flat.t(), all(before));  // ∂K = Σ_t δ_tᵀ h̄_{t−1}
      const auto x = inputs.narrow(0, first, filled).narrow(1, from, count).reshape({filled * count, width});
      mine.v.addmm_(flat.t(), x.to(z.scalar_type()));
      if (with_inputs) {
        const auto dx = at::mm(flat, v_conj).view({filled, count, width});
        result.inputs.narrow(0, first, filled)
            .narrow(1, from, count)
            .copy_(dx.is_complex() ? at::real(dx) : dx);
      }
      filled = 0;
    };
    for (int64_t t = steps; t-- > 0;) {
      ++filled;
      auto delta = deltas.select(0, most - filled);
      auto last = before.select(0, most - filled);
      const auto now = z.select(0, t).narrow(0, from, count);
      rows.slope(Rows<Real>::reals(now), Rows<Real>::reals(g), count, Rows<Real>::reals(delta),
                 mine.b.data_ptr<Real>());
      if (t > 0) {
        const auto earlier = z.select(0, t - 1).narrow(0, from, count);
        rows.activate(Rows<Real>::reals(earlier), count, Rows<Real>::reals(last));
      } else {
        last.copy_(layer.h0.expand({count, n}));
      }
      if (last.is_complex()) at::view_as_real(last).select(-1, 1).neg_();
      // z = HKᵀ, so ∂H = δK̄.
      if (all_states && t > 0) {
        g.copy_(gradient.select(0, t - 1).narrow(0, from, count));
        g.addmm_(delta, k_conj);
      } else {
        at::mm_out(g, delta, k_conj);
      }
      if (filled == most || t == 0) spend(t);
    }
    mine.h0 = g.sum(0);
    const std::lock_guard<std::mutex> alone(entering);
    shares.emplace_back(from, mine);
  });
  std::sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < shares.size(); ++i) {
    const auto& mine = shares[i].second;
    if (i == 0) {
      result.k = mine.k;
      result.v = mine.v;
      result.b = mine.b;
      result.h0 = mine.h0;
    } else {
      result.k.add_(mine.k);
      result.v.add_(mine.v);
      result.b.add_(mine.b);
      result.h0.add_(mine.h0);
    }
  }
  return result;
}

}  // namespace

Forward forward_cpu(const at::Tensor& inputs, const Recurrence& layer, bool all_states) {
  return inputs.scalar_type() == at::kDouble ? forward<double>(inputs, layer, all_states)
                                             : forward<float>(inputs, layer, all_states);
}

Backward backward_cpu(const at::Tensor& inputs, const Recurrence& layer, const at::Tensor& z,
                      const at::Tensor& gradient, bool all_states, bool with_inputs) {
  const auto pass = inputs.scalar_type() == at::kDouble ? backward<double> : backward<float>;
  return pass(inputs, layer, z, gradient, all_states, with_inputs);
}

}  // namespace stiefel::models::detail
