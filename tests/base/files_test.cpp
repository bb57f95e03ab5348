#include "base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/json.h"
#include "tests/scratch.h"

// Whole files: what is written is all there or the old one is, and nothing but a regular file is replaced.

namespace files_test {

namespace fs = std::filesystem;
namespace base = stiefel::base;

class Files : public scratch::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_ / name; }

  /// What an operation says when it fails; empty where it does not.
  template <class Operation>
  static std::string error_of(Operation&& operation) {
    try {
      operation();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }

  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }
};

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

using Names = std::vector<std::string>;

TEST_F(Files, AFileIsReplacedWhole) {
  base::write_file(path("a"), "old and long");
  base::write_pieces(path("a"), {"new", "", "er"});
  EXPECT_EQ(base::read_file(path("a")), "newer");
  EXPECT_EQ(names(), (Names{"a"}));
  EXPECT_SAYS(error_of([&] { base::write_file(path("none") / "a", ""); }), "make its folder first");
  EXPECT_SAYS(error_of([&] { base::write_file(folder_, ""); }), "is a folder; name a file");
}

TEST_F(Files, AFileThatDoesNotFitIsAnErrorAndTheOldOneStays) {
  base::write_file(path("a"), "old");
  // Files of more than 100 bytes cannot be written, as on a full disk.
  const auto signal_before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const rlimit small{100, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto message = error_of([&] { base::write_file(path("a"), std::string(1000, 'x')); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, signal_before);
  EXPECT_SAYS(message, "cannot be written");
  EXPECT_SAYS(message, "free some space");
  EXPECT_EQ(base::read_file(path("a")), "old");
  EXPECT_EQ(names(), (Names{"a"}));
}

TEST_F(Files, WhatAKilledProgramLeftIsOverwritten) {
  std::ofstream(path("a.tmp")) << "half of something longer";
  base::write_file(path("a"), "new");
  EXPECT_EQ(base::read_file(path("a")), "new");
  EXPECT_EQ(names(), (Names{"a"}));
}

TEST_F(Files, WhateverHasTheTemporaryNameIsLeftAlone) {
  std::ofstream(path("precious")) << "precious";
  fs::create_directory(path("folder.tmp"));
  fs::create_symlink("precious", path("link.tmp"));
  ASSERT_EQ(mkfifo(path("fifo.tmp").c_str(), 0600), 0);
  for (const std::string name : {"folder", "link", "fifo"}) {
    base::write_file(path(name), name);
    EXPECT_EQ(base::read_file(path(name)), name);
  }
  EXPECT_EQ(base::read_file(path("precious")), "precious");
  EXPECT_EQ(names(), (Names{"fifo", "fifo.tmp", "folder", "folder.tmp", "link", "link.tmp", "precious"}));
}

TEST_F(Files, WritersOfOneFileDoNotMix) {
  // Each writes its own letter only, many times over: whichever is last, the file is of one letter.
  std::vector<std::thread> writers;
  for (const char letter : {'a', 'b', 'c'}) {
    writers.emplace_back([this, letter] {
      for (int i = 0; i < 20; ++i) base::write_file(path("shared"), std::string(100000, letter));
    });
  }
  for (auto& writer : writers) writer.join();
  const auto content = base::read_file(path("shared"));
  EXPECT_EQ(content, std::string(100000, content.at(0)));
  EXPECT_EQ(names(), (Names{"shared"}));
}

TEST_F(Files, ASymbolicLinkStaysAndItsFileIsReplaced) {
  fs::create_directory(path("elsewhere"));
  base::write_file(path("elsewhere") / "file", "old");
  fs::create_symlink("elsewhere/file", path("relative"));
  fs::create_symlink(path("relative"), path("absolute"));
  base::write_file(path("absolute"), "new");
  EXPECT_TRUE(fs::is_symlink(path("absolute")));
  EXPECT_TRUE(fs::is_symlink(path("relative")));
  EXPECT_EQ(base::read_file(path("elsewhere") / "file"), "new");
  // A link to nothing yet makes its file.
  fs::create_symlink("elsewhere/made", path("dangling"));
  base::write_file(path("dangling"), "made");
  EXPECT_TRUE(fs::is_symlink(path("dangling")));
  EXPECT_EQ(base::read_file(path("elsewhere") / "made"), "made");
  fs::create_symlink("loop", path("loop"));
  EXPECT_SAYS(error_of([&] { base::write_file(path("loop"), ""); }), "loop: cannot be written");
}

TEST_F(Files, ADeviceIsWrittenToAndStays) {
  // Devices of the test's own, where it may make them: as root, a mistake would take away the system's.
  const auto device = [&](const char* name, unsigned minor) {
    const auto own = path(name);
    if (::mknod(own.c_str(), S_IFCHR | 0666, makedev(1, minor)) != 0) return fs::path("/dev") / name;
    if (const int opened = ::open(own.c_str(), O_WRONLY); opened >= 0) {
      ::close(opened);
      return own;
    }
    return fs::path();  // on a file system that has no devices
  };
  const auto null = device("null", 3);
  const auto full = device("full", 7);
  if (null.empty() || !fs::exists(full)) GTEST_SKIP() << "no devices here";
  base::write_file(null, "into the void");
  EXPECT_TRUE(fs::is_character_file(null));
  fs::create_symlink(null, path("link"));
  base::write_file(path("link"), "into the void");
  EXPECT_TRUE(fs::is_symlink(path("link")));
  EXPECT_TRUE(fs::is_character_file(null));
  const auto message = error_of([&] { base::write_file(full, "x"); });
  EXPECT_SAYS(message, "full: cannot be written: No space left");
  EXPECT_SAYS(message, "free some space");
  EXPECT_TRUE(fs::is_character_file(full));
}

TEST_F(Files, AFifoGetsTheBytes) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_SAYS(error_of([&] { base::write_file(path("fifo"), "x"); }), "start the reader first");
  const int reader = ::open(path("fifo").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  ::fcntl(reader, F_SETFL, 0);
  const std::string bytes(300000, 'x');  // more than a pipe holds
  std::string received;
  std::thread other([&] {
    std::string piece(1 << 16, '\0');
    for (;;) {
      const auto count = ::read(reader, piece.data(), piece.size());
      if (count > 0) received.append(piece, 0, static_cast<size_t>(count));
      if (count < 0 || (count == 0 && !received.empty())) return;
      // Nothing: the writer has not opened it yet.
      if (count == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  base::write_file(path("fifo"), bytes);
  other.join();
  ::close(reader);
  EXPECT_EQ(received, bytes);
  EXPECT_TRUE(fs::is_fifo(path("fifo")));
}

TEST_F(Files, AnOpenDescriptorGoesOnWhereItIs) {
  const int log = ::open(path("log").c_str(), O_RDWR | O_CREAT, 0600);
  ASSERT_GE(log, 0);
  ASSERT_EQ(::write(log, "before ", 7), 7);
  base::write_file("/dev/fd/" + std::to_string(log), "middle");
  ASSERT_EQ(::write(log, " after", 6), 6);
  ::close(log);
  EXPECT_EQ(base::read_file(path("log")), "before middle after");
}

TEST_F(Files, OnlyRegularFilesAreRead) {
  ASSERT_EQ(mkfifo(path("fifo").c_str(), 0600), 0);
  EXPECT_SAYS(error_of([&] { base::read_file(path("fifo")); }),
              "fifo: is a fifo, where a regular file should be");
  EXPECT_SAYS(error_of([&] { base::read_file(folder_); }), "is a folder");
  EXPECT_SAYS(error_of([&] { base::read_file("/dev/zero"); }), "is a device");
  EXPECT_SAYS(error_of([&] { base::read_file(path("none")); }), "none: cannot be opened: No such file");
  EXPECT_EQ(base::read_stream("/dev/null"), "");
}

TEST(Json, SaysWhatIsWrongAndWhere) {
  const auto error_in = [](const std::string& text) -> std::string {
    try {
      base::parse_json(text);
    } catch (const base::JsonError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(error_in("{\"a\": [1, -2.5e3, \"]}\\\"[\"], \"b\": {}}"), "");
  EXPECT_EQ(base::parse_json("[[1], 2]").at(0).at(0), 1);
  EXPECT_SAYS(error_in("{\"a\": 1,\n\n oops}"), "line 3, column 2: broken JSON");
  EXPECT_SAYS(error_in(""), "line 1, column 1: broken JSON");
  EXPECT_SAYS(error_in("{\"a\":\n1e999}"), "line 2, column 5: the number 1e999 is too large");
  for (const auto& [open, close] : {std::pair("[", "]"), std::pair("{\"a\":", "}")}) {
    const auto nested = [&, open = open, close = close](int depth) {
      std::string text;
      for (int i = 0; i < depth; ++i) text += open;
      text += "1";
      for (int i = 0; i < depth; ++i) text += close;
      return text;
    };
    EXPECT_EQ(error_in(nested(100)), "");
    EXPECT_SAYS(error_in("\n" + nested(101)), "line 2, column");
    EXPECT_SAYS(error_in(nested(1000000)), "nested more than 100 deep");
  }
  EXPECT_SAYS(error_in(std::string(1000000, '[')), "nested more than 100 deep");
}

TEST(TemporaryNames, AreThoseThatAreWritten) {
  EXPECT_TRUE(base::is_temporary("runs/a/config.toml.tmp", "config.toml"));
  EXPECT_TRUE(base::is_temporary("config.toml.12.tmp", "config.toml"));
  for (const auto* other : {"config.toml", "config.toml.x.tmp", "config.toml..tmp", "my-config.toml.tmp",
                            "config.toml.tmp.old", "a.tmp", ".tmp"})
    EXPECT_FALSE(base::is_temporary(other, "config.toml")) << other;
}

}  // namespace files_test
