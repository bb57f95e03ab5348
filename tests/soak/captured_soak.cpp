#include <torch/cuda.h>

#include <cmath>

#include "tests/soak/hostile_gradients.h"
#include "tests/soak/soak.h"

#if STIEFEL_HAS_CUDA
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDAGuard.h>
#endif

// A step on a GPU, captured once and replayed while its rate follows a schedule.

namespace soak {

#if STIEFEL_HAS_CUDA

bool soak_captured(const Method& method, const Shapes& shapes, const Plan& plan, Result& result,
                   stiefel::base::TerminalLine& line) {
  if (!torch::cuda::is_available()) return false;
  const auto weights_at_start = make_weights(shapes, at::kFloat, plan.seed);
  // The gradients are made on the host, beside twins of the weights that only follow them at a look: what a
  // kind of gradient is does not depend on where exactly the matrix is.
  Weights weights;
  for (const auto& weight : weights_at_start.matrices)
    weights.matrices.push_back(weight.detach().to(at::kCUDA).requires_grad_());
  for (const auto& weight : weights_at_start.stacks)
    weights.stacks.push_back(weight.detach().to(at::kCUDA).requires_grad_());
  const auto there = all_of(weights), here = all_of(weights_at_start);
  const HostileGradients gradients(method, plan.seed);
  int64_t not_finite = 0;
  const auto feed = [&](int64_t step) {
    not_finite += gradients.set(weights_at_start, step);
    for (size_t i = 0; i < there.size(); ++i) {
      if (!there[i].grad().defined()) there[i].mutable_grad() = torch::empty_like(there[i].detach());
      there[i].mutable_grad().copy_(here[i].grad());
    }
  };
  const auto optimizer = method.make(weights);
  const auto stream = c10::cuda::getStreamFromPool();
  const c10::cuda::CUDAStreamGuard guard(stream);
  at::cuda::CUDAGraph graph;
  feed(0);
  optimizer->step();
  stream.synchronize();
  graph.capture_begin();
  optimizer->step();
  graph.capture_end();
  for (int64_t step = 1; step <= plan.steps; ++step) {
    feed(step);
    const double rate = kRate * 0.5 * (1 + std::cos(static_cast<double>(step) * 1e-2));
    for (auto& group : optimizer->param_groups()) group.options().set_lr(rate);
    optimizer->refresh_rates();
    graph.replay();
    if (step % plan.look_every != 0 && step != plan.steps) continue;
    stream.synchronize();
    for (size_t i = 0; i < there.size(); ++i) here[i].detach().copy_(there[i].detach());
    check_defects(method, shapes, "captured", here, step, result);
    check_skipped(method, shapes, "captured", optimizer->skipped_steps(), not_finite, step);
    show_progress(line, method.name + ", captured, " + shapes.name, step, plan.steps);
  }
  result.not_finite = not_finite;
  return true;
}

#else

bool soak_captured(const Method&, const Shapes&, const Plan&, Result&, stiefel::base::TerminalLine&) {
  return false;
}

#endif

}  // namespace soak
