#include "optim/side_stream.h"

#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace stiefel::detail {

namespace {

using c10::impl::VirtualGuardImpl;

/// A stream of LibTorch's pool other than the caller's, which comes from that pool too while a graph is
/// captured: the pool hands its streams out in turns.
c10::Stream another_stream(const c10::Device& device) {
  const VirtualGuardImpl streams(device.type());
  const auto current = streams.getStream(device);
  const auto first = streams.getStreamFromGlobalPool(device);
  return first != current ? first : streams.getStreamFromGlobalPool(device);
}

/// Makes `later` wait for what `earlier` has been given so far. An event of its own each time: one that was
/// recorded in a capture must not be waited for outside it.
void order(const c10::Stream& earlier, const c10::Stream& later) {
  c10::Event event(earlier.device_type());
  event.record(earlier);
  event.block(later);
}

}  // namespace

SideStream::SideStream(const c10::Device& device) : device_(device), stream_(another_stream(device)) {}

c10::Stream SideStream::current(const c10::Device& device) {
  return VirtualGuardImpl(device.type()).getStream(device);
}

void SideStream::run(const std::vector<c10::Stream>& streams, const std::function<void()>& work) {
  for (const auto& stream : streams) order(stream, stream_);
  has_work_ = true;
  const c10::StreamGuard guard(stream_);
  work();
}

void SideStream::join() {
  if (std::exchange(has_work_, false)) order(stream_, current(device_));
}

}  // namespace stiefel::detail
