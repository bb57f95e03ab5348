#pragma once

#include <gtest/gtest.h>
#include <stiefel/stiefel.h>
#include <torch/torch.h>

#include <sstream>
#include <string>
#include <vector>

// What the tests of the optimisers share.

namespace support {

/// A parameter on the manifold, drawn at random.
inline at::Tensor point(at::IntArrayRef shape, at::ScalarType type = at::kDouble, bool batched = false) {
  auto weight = torch::empty(shape, type);
  stiefel::init::haar_(weight, batched);
  return weight.requires_grad_(true);
}

inline void set_gradient(const at::Tensor& parameter, const at::Tensor& gradient) {
  parameter.mutable_grad() = gradient.detach().clone();
}

/// Fresh random gradients for all parameters, from a generator of their own.
inline void randomize_gradients(const std::vector<at::Tensor>& parameters, double scale = 0.1) {
  for (const auto& parameter : parameters) {
    set_gradient(parameter,
                 torch::randn(parameter.sizes(), parameter.options().requires_grad(false)) * scale);
  }
}

inline double defect(const at::Tensor& weight, bool batched = false) {
  return stiefel::defect(weight, batched).max().item<double>();
}

inline double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.detach() - b.detach()).abs().max().item<double>();
}

inline at::Tensor copy_of(const at::Tensor& t) {
  return t.detach().clone().requires_grad_(t.requires_grad());
}

/// Runs `act` and returns the message of the c10::Error it throws; fails the test where it throws none.
template <class Act>
std::string error_of(Act act) {
  try {
    act();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  ADD_FAILURE() << "no error was thrown";
  return "";
}

/// An optimiser's archive as bytes, and back.
inline std::string save(const torch::optim::Optimizer& optimizer) {
  std::ostringstream stream;
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  archive.save_to(stream);
  return stream.str();
}

inline void load(torch::optim::Optimizer& optimizer, const std::string& bytes) {
  std::istringstream stream(bytes);
  torch::serialize::InputArchive archive;
  archive.load_from(stream);
  optimizer.load(archive);
}

struct WarningCollector : c10::WarningHandler {
  std::string text;
#if TORCH_VERSION_MAJOR >= 2
  void process(const c10::Warning& warning) override { text += warning.msg() + "\n"; }
#else
  void process(const c10::SourceLocation&, const std::string& message, const bool) override {
    text += message + "\n";
  }
#endif
};

/// Collects LibTorch's warnings while it lives.
struct Warnings {
  WarningCollector collector;
#if TORCH_VERSION_MAJOR >= 2
  c10::WarningUtils::WarningHandlerGuard guard{&collector};
#else
  c10::Warning::WarningHandlerGuard guard{&collector};
#endif
  const std::string& text() const { return collector.text; }
};

}  // namespace support

/// Expects that `statement` throws a c10::Error whose message holds `part`.
#define EXPECT_ERROR(statement, part)                                           \
  do {                                                                          \
    const auto message = support::error_of([&] { statement; });                 \
    EXPECT_NE(message.find(part), std::string::npos) << "message: " << message; \
  } while (false)
