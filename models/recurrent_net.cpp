#include "recurrent_net.h"

#include <stiefel/init.h>

#include <cmath>
#include <regex>
#include <stdexcept>

namespace stiefel::models {

namespace {

const std::regex kName("(u|o|)rnn-([1-9]\\d{0,5})");

at::Tensor uniform(at::IntArrayRef sizes, double bound) { return at::empty(sizes).uniform_(-bound, bound); }

}  // namespace

RecurrentNet::RecurrentNet(Kind kind, int64_t hidden, const SequenceShape& shape)
    : kind_(kind), every_step_(shape.every_step) {
  const int64_t n = hidden;
  const bool complex = kind == Kind::kUnitary;
  const int64_t parts = complex ? 2 : 1;
  const auto with_parts = [&](std::vector<int64_t> sizes) {
    if (complex) sizes.push_back(2);
    return sizes;
  };
  // Uniform within ±√(6/(inputs + outputs)), a complex unit counted as two, as in the published network.
  const auto glorot = [](int64_t in, int64_t out) { return std::sqrt(6.0 / static_cast<double>(in + out)); };
  auto k = at::empty({n, n}, complex ? at::kComplexFloat : at::kFloat);
  if (kind == Kind::kPlain) {
    const double bound = 1 / std::sqrt(static_cast<double>(n));
    k.uniform_(-bound, bound);
  } else {
    init::haar_(k);
  }
  k_ = register_parameter("recurrent", k);
  v_ = register_parameter("input", uniform(with_parts({n, shape.inputs}), glorot(shape.inputs, parts * n)));
  b_ = register_parameter("bias", kind == Kind::kPlain ? at::zeros({n}) : uniform({n}, 0.01));
  h0_ =
      register_parameter("first", uniform(with_parts({n}), std::sqrt(3.0 / (2.0 * static_cast<double>(n)))));
  u_ = register_parameter("output", uniform({shape.outputs, parts * n}, glorot(parts * n, shape.outputs)));
  c_ = register_parameter("output_bias", at::zeros({shape.outputs}));
}

Recurrence RecurrentNet::layer() const {
  if (kind_ == Kind::kUnitary) return {k_, at::view_as_complex(v_), b_, at::view_as_complex(h0_)};
  return {k_, v_, b_, h0_, kind_ == Kind::kPlain ? Activation::kTanh : Activation::kModRelu};
}

torch::Tensor RecurrentNet::forward(torch::Tensor sequences) {
  auto states = unroll(sequences.transpose(0, 1), layer(), every_step_);
  // [Re h; Im h] as they lie in memory, unit by unit; U is drawn at random, so its order is free.
  if (states.is_complex()) states = at::view_as_real(states).flatten(-2);
  const auto scores = at::linear(states, u_, c_);
  return every_step_ ? scores.transpose(0, 1) : scores;
}

ParameterSplit RecurrentNet::split() const {
  return split_parameters(
      *this, [this](const ParameterInfo& info) { return kind_ != Kind::kPlain && info.name == "recurrent"; });
}

bool is_recurrent(const std::string& name) { return std::regex_match(name, kName); }

std::shared_ptr<RecurrentNet> make_recurrent(const std::string& name, const SequenceShape& shape) {
  std::smatch match;
  if (!std::regex_match(name, match, kName)) {
    throw std::invalid_argument(
        "no sequence network is called '" + name +
        "'; there are urnn-N (unitary), ornn-N (orthogonal) and rnn-N (plain), for example "
        "urnn-116");
  }
  const auto kind = match[1] == "u"   ? RecurrentNet::Kind::kUnitary
                    : match[1] == "o" ? RecurrentNet::Kind::kOrthogonal
                                      : RecurrentNet::Kind::kPlain;
  return std::make_shared<RecurrentNet>(kind, std::stoll(match[2]), shape);
}

}  // namespace stiefel::models
