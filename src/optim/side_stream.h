#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>
#include <vector>

namespace stiefel::detail {

/// A stream beside those of the caller, on which work runs in order. LibTorch's own streams and events of any
/// accelerator, so that what runs there can be captured into a CUDA graph: such a capture spreads to the
/// stream with the first event that it waits for, and join() ends it there.
class SideStream {
 public:
  explicit SideStream(const c10::Device& device);

  /// The caller's stream on a device.
  static c10::Stream current(const c10::Device& device);

  /// Launches `work` on the stream, behind all that `streams` have been given so far. What it allocates
  /// belongs to this stream; what it reads must live until join().
  void run(const std::vector<c10::Stream>& streams, const std::function<void()>& work);

  /// Makes the caller's stream wait for all of it.
  void join();

  const c10::Device& device() const { return device_; }

 private:
  c10::Device device_;
  c10::Stream stream_;
  bool has_work_ = false;  // that nothing has joined
};

}  // namespace stiefel::detail
