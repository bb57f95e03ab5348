#include "terminal_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include "text_layout.h"

namespace stiefel::base {

namespace {

constexpr const char* kEraseLine = "\r\033[K";

/// The characters that fit into a line of the terminal; 0 where it does not tell.
size_t terminal_width(int descriptor) {
  winsize size{};
  return ::ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

TerminalLine::TerminalLine(std::FILE* stream) : stream_(stream), terminal_(::isatty(::fileno(stream)) == 1) {}

bool TerminalLine::is_due(Interval interval) {
  const auto now = std::chrono::steady_clock::now();
  const bool first = last_ == std::chrono::steady_clock::time_point{};
  if (!first && now - last_ < interval) return false;
  last_ = now;
  return true;
}

void TerminalLine::show(const std::string& text) {
  if (!terminal_) return;
  const auto width = terminal_width(::fileno(stream_));
  write(kEraseLine + (width > 0 ? text_start(text, width) : text));
}

void TerminalLine::clear() { write(terminal_ ? kEraseLine : ""); }

void TerminalLine::print(const std::string& line) { write((terminal_ ? kEraseLine : "") + line + "\n"); }

void TerminalLine::write(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stream_);
  std::fflush(stream_);
}

}  // namespace stiefel::base
