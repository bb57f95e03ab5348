#pragma once

#include <ATen/core/Generator.h>
#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace stiefel::train {

/// Runs the device's part of a training step again and again: on a GPU the first few times as it is, on a
/// stream of its own, then recorded into a CUDA graph, which is launched from there on. What cannot be
/// recorded goes on as it is, with a reason to show. Every call is one step: none is repeated or lost.
class StepGraph {
 public:
  static constexpr int kWarmUps = 3;  ///< steps before the recording, in which libraries choose and allocate

  /// `wanted` false: every step runs as it is.
  StepGraph(const c10::Device& device, bool wanted);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// Gives up recording, for a reason; nothing where nobody wanted it, or off a GPU.
  void refuse(const std::string& reason);

  /// A generator that the step draws from, beside LibTorch's own. It may be seeded between steps.
  void use(const at::Generator& generator);

  /// One step. `work` must leave on the host nothing that the next step needs.
  void run(const std::function<void()>& work);

  /// Forgets the recording, for example because tensors were replaced: the next steps warm up again.
  void forget();

  bool captured() const;

  /// Why steps run as they are although a graph was wanted on a GPU; empty where they do not.
  const std::string& reason() const { return reason_; }

  /// Returns the reason once, after it has come up; nothing afterwards.
  std::optional<std::string> take_reason();

 private:
  class Device;
  std::unique_ptr<Device> device_;  // none where no graph is wanted, or can be
  bool wanted_;
  std::string reason_;
  bool told_ = true;
};

}  // namespace stiefel::train
