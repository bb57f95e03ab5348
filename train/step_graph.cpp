#include "step_graph.h"

#include <torch/version.h>

#if STIEFEL_HAS_CUDA && TORCH_VERSION_MAJOR >= 2
#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#define STIEFEL_HAS_GRAPHS 1
#else
#define STIEFEL_HAS_GRAPHS 0
#endif

#include <exception>
#include <vector>

#include "message.h"

namespace stiefel::train {

#if STIEFEL_HAS_GRAPHS

namespace {

// Launches that may wait for the device, so that Ctrl-C is answered within a second.
constexpr int kAhead = 16;

/// The first line of what went wrong.
std::string summary(const std::exception& error) {
  const auto text = message_of(error);
  return text.substr(0, text.find('\n'));
}

/// Does what must be tried after a failure and may fail itself.
template <class Act>
void attempt(Act act) {
  try {
    act();
  } catch (const std::exception&) {
  }
}

}  // namespace

class StepGraph::Device {
 public:
  explicit Device(const c10::Device& device)
      : index_(device.has_index() ? device.index() : c10::cuda::current_device()),
        side_(at::cuda::getStreamFromPool(/*isHighPriority=*/false, index_)) {}

  bool captured() const { return graph_ != nullptr; }
  bool warm() const { return warm_ups_ >= kWarmUps; }
  void use(const at::Generator& generator) { generators_.push_back(generator); }

  /// As it is, on the stream that a recording will be made on: what a backward pass keeps with its stream
  /// must not meet another one there.
  void warm_up(const std::function<void()>& work) {
    const auto main = at::cuda::getCurrentCUDAStream(index_);
    at::cuda::CUDAEvent before;
    before.record(main);
    before.block(side_);
    {
      const c10::cuda::CUDAStreamGuard guard(side_);
      work();
    }
    at::cuda::CUDAEvent after;
    after.record(side_);
    after.block(main);
    ++warm_ups_;
  }

  /// Records the step without running it; returns what went wrong, or nothing.
  std::string capture(const std::function<void()>& work) {
    c10::cuda::device_synchronize();
    // The graph has memory of its own; what the first steps left behind would lie idle.
    c10::cuda::CUDACachingAllocator::emptyCache();
    auto graph = std::make_unique<at::cuda::CUDAGraph>();
    for (const auto& generator : generators_) graph->register_generator_state(generator);
    const c10::cuda::CUDAStreamGuard guard(side_);
    // Named beforehand: after a failure the graph does not tell.
    const auto pool = at::cuda::graph_pool_handle();
    bool begun = false;
    try {
      graph->capture_begin(pool);
      begun = true;
      work();
      graph->capture_end();
    } catch (const std::exception& error) {
      const auto reason = summary(error);
      if (begun) abandon(*graph, pool);
      return reason;
    }
    graph_ = std::move(graph);
    return {};
  }

  void replay() {
    graph_->replay();
    pace();
  }

  /// Waits where the host is too far ahead of the device.
  void pace() {
    if (++launched_ < kAhead) return;
    launched_ = 0;
    if (waited_for_.isCreated()) waited_for_.synchronize();
    waited_for_.record(at::cuda::getCurrentCUDAStream(index_));
  }

  void forget() {
    c10::cuda::device_synchronize();
    graph_.reset();
    warm_ups_ = 0;
  }

 private:
  /// Ends a recording that failed. LibTorch's own end stops at the first error, with the allocator and the
  /// generators still in the recording.
  void abandon(at::cuda::CUDAGraph& graph, const c10::cuda::MempoolId_t& pool) {
    bool ended = false;
    attempt([&] {
      graph.capture_end();
      ended = true;
    });
    if (ended) return;
    (void)cudaGetLastError();  // forget it, or the next check would find it
    attempt([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(index_, pool); });
    attempt([&] { c10::cuda::CUDACachingAllocator::releasePool(index_, pool); });
    auto generators = generators_;
    generators.push_back(at::globalContext().defaultGenerator(at::Device(at::kCUDA, index_)));
    for (auto& generator : generators) attempt([&] { generator.graphsafe_set_state(generator.clone()); });
  }

  c10::DeviceIndex index_;
  c10::cuda::CUDAStream side_;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
  std::vector<at::Generator> generators_;
  int warm_ups_ = 0;
  int launched_ = 0;
  at::cuda::CUDAEvent waited_for_;
};

StepGraph::StepGraph(const c10::Device& device, bool wanted) : wanted_(wanted && device.is_cuda()) {
  if (wanted_) device_ = std::make_unique<Device>(device);
}

void StepGraph::run(const std::function<void()>& work) {
  if (!device_) {
    work();
  } else if (device_->captured()) {
    device_->replay();
  } else if (!device_->warm()) {
    device_->warm_up(work);
  } else if (const auto problem = device_->capture(work); problem.empty()) {
    device_->replay();
  } else {
    refuse(problem);
    work();
  }
}

#else

class StepGraph::Device {
 public:
  bool captured() const { return false; }
  void use(const at::Generator&) {}
  void forget() {}
};

StepGraph::StepGraph(const c10::Device& device, bool wanted) : wanted_(wanted && device.is_cuda()) {
  if (wanted_) refuse("this build has no CUDA graphs");
}

void StepGraph::run(const std::function<void()>& work) { work(); }

#endif

StepGraph::~StepGraph() = default;

void StepGraph::refuse(const std::string& reason) {
  if (!wanted_) return;
  device_.reset();
  reason_ = reason;
  told_ = false;
}

void StepGraph::use(const at::Generator& generator) {
  if (device_) device_->use(generator);
}

void StepGraph::forget() {
  if (device_) device_->forget();
}

bool StepGraph::captured() const { return device_ && device_->captured(); }

std::optional<std::string> StepGraph::take_reason() {
  if (told_) return std::nullopt;
  told_ = true;
  return reason_;
}

}  // namespace stiefel::train
