#include "base/terminal_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <string>

// The line that shows progress: on a terminal, in a pipe, and where nothing can be written.

namespace terminal_line_test {

using stiefel::base::TerminalLine;

/// What can be read from a descriptor without waiting.
std::string read_all(int descriptor) {
  ::fcntl(descriptor, F_SETFL, O_NONBLOCK);
  std::string text(65536, '\0');
  const auto size = ::read(descriptor, text.data(), text.size());
  text.resize(size > 0 ? static_cast<size_t>(size) : 0);
  return text;
}

/// A terminal of that many columns; what is written to `stream` can be read from `master`.
struct Terminal {
  explicit Terminal(unsigned short columns) {
    master = ::posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || ::grantpt(master) != 0 || ::unlockpt(master) != 0) return;
    stream = std::fopen(::ptsname(master), "w");
    const winsize size{24, columns, 0, 0};
    if (stream) ::ioctl(::fileno(stream), TIOCSWINSZ, &size);
  }
  ~Terminal() {
    if (stream) std::fclose(stream);
    if (master >= 0) ::close(master);
  }
  int master = -1;
  std::FILE* stream = nullptr;
};

TEST(TerminalLines, AreOverwrittenOnATerminal) {
  const Terminal terminal(20);
  if (!terminal.stream) GTEST_SKIP() << "no pseudo-terminal here";
  TerminalLine line(terminal.stream);
  EXPECT_TRUE(line.is_terminal());
  line.show("‖x‖ = 1");
  EXPECT_EQ(read_all(terminal.master), "\r\033[K‖x‖ = 1");
  line.show(std::string(19, 'a') + "‖" + "bc");
  EXPECT_EQ(read_all(terminal.master), "\r\033[K" + std::string(19, 'a') + "‖") << "cut at the edge";
  line.print("stays");
  EXPECT_EQ(read_all(terminal.master), "\r\033[Kstays\r\n");
  line.clear();
  EXPECT_EQ(read_all(terminal.master), "\r\033[K");
}

TEST(TerminalLines, AnythingElseGetsOnlyTheLinesThatStay) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  std::FILE* const stream = ::fdopen(ends[1], "w");
  TerminalLine line(stream);
  EXPECT_FALSE(line.is_terminal());
  line.show("hidden");
  line.clear();
  line.print("one");
  line.print("two");
  EXPECT_EQ(read_all(ends[0]), "one\ntwo\n");
  std::fclose(stream);
  ::close(ends[0]);
}

TEST(TerminalLines, AreDueAtOnceAndThenAfterTheInterval) {
  TerminalLine line(stderr);
  EXPECT_TRUE(line.is_due(std::chrono::hours(1)));
  EXPECT_FALSE(line.is_due(std::chrono::hours(1)));
  EXPECT_TRUE(line.is_due(std::chrono::milliseconds(0)));
}

TEST(TerminalLines, AFullStreamIsNoError) {
  std::FILE* const full = std::fopen("/dev/full", "w");
  if (!full) GTEST_SKIP() << "no /dev/full here";
  TerminalLine line(full);
  EXPECT_NO_THROW(line.print(std::string(100000, 'x')));
  EXPECT_NO_THROW(line.clear());
  std::fclose(full);
}

}  // namespace terminal_line_test
