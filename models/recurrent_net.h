#pragma once

#include <memory>
#include <string>
#include <vector>

#include "network.h"
#include "recurrence.h"

namespace stiefel::models {

/// What a sequence network is told.
struct SequenceShape {
  int64_t inputs = 1;    ///< D, numbers a step
  int64_t outputs = 10;  ///< scores
  /// Whether it answers at every step, (N, T, outputs), or at the end, (N, outputs).
  bool every_step = false;
};

/// One recurrent layer and a linear read-out, in three kinds that differ in the numbers they count with and
/// in what holds their hidden-to-hidden matrix K:
///
///   unitary     the full-capacity uRNN (Wisdom et al. 2016): complex, K unitary, modReLU
///   orthogonal  the same in real numbers: K orthogonal, modReLU
///   plain       real, K free, tanh: what the others are measured against
///
/// The read-out is U[Re h; Im h] + c, U's columns in the order of memory, unit by unit. Complex vectors are
/// kept as pairs of reals, which any optimiser can train; K alone is complex.
class RecurrentNet : public Network {
 public:
  enum class Kind { kUnitary, kOrthogonal, kPlain };

  RecurrentNet(Kind kind, int64_t hidden, const SequenceShape& shape);

  /// Sequences (N, T, D).
  torch::Tensor forward(torch::Tensor sequences) override;

  /// K goes on the manifold, unless the network is plain.
  ParameterSplit split() const override;

  const at::Tensor& recurrent_weight() const { return k_; }

 private:
  Recurrence layer() const;

  Kind kind_;
  bool every_step_;
  at::Tensor k_, v_, b_, h0_, u_, c_;
};

/// Whether a name is a sequence network's: urnn-N, ornn-N or rnn-N.
bool is_recurrent(const std::string& name);

/// Builds one by its name. Throws std::invalid_argument where it is none of these.
std::shared_ptr<RecurrentNet> make_recurrent(const std::string& name, const SequenceShape& shape);

}  // namespace stiefel::models
