// Numbers read from text, and names shown to people.

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/numbers.h"
#include "base/printable.h"

namespace text_test {

using namespace stiefel::base;

/// What the reading complains of; empty where it does not.
template <class Read>
std::string complaint(const Read& read, const std::string& word) {
  try {
    read(word);
    return "";
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
}

TEST(WholeNumbers, AreReadToTheLastDigit) {
  EXPECT_EQ(to_whole("0"), 0);
  EXPECT_EQ(to_whole("-5"), -5);
  EXPECT_EQ(to_whole("+7"), 7);
  EXPECT_EQ(to_whole("010"), 10);
  EXPECT_EQ(to_whole("0x10"), 16);
  EXPECT_EQ(to_whole("-0x10"), -16);
  EXPECT_EQ(to_whole("9223372036854775807"), std::numeric_limits<int64_t>::max());
  EXPECT_EQ(to_whole("-9223372036854775808"), std::numeric_limits<int64_t>::min());
}

TEST(WholeNumbers, TooLargeOnesAreNotTakenForOthers) {
  for (const auto* word :
       {"9223372036854775808", "18446744073709551615", "18446744073709551616", "0xffffffffffffffff"}) {
    EXPECT_EQ(complaint(to_whole, word),
              std::string(word) + " is too large; the largest whole number is 9223372036854775807");
  }
  EXPECT_EQ(complaint(to_whole, "-9223372036854775809"),
            "-9223372036854775809 is too small; the smallest whole number is -9223372036854775808");
}

TEST(WholeNumbers, NothingElseIsOne) {
  for (const auto* word :
       {"", "-", "0x", "1.5", "1e3", "ten", "true", "nan", "inf", " 1", "1 ", "--1", "+-1"}) {
    EXPECT_EQ(complaint(to_whole, word), "'" + std::string(word) + "' is not a whole number");
  }
}

TEST(Numbers, AreReadWhole) {
  EXPECT_EQ(to_number("-2.5e-3"), -2.5e-3);
  EXPECT_EQ(to_number("1e-320"), 1e-320);  // below the least normal number
  EXPECT_EQ(to_number("1e-999"), 0);
  EXPECT_TRUE(std::isnan(to_number("nan")));
  EXPECT_TRUE(std::isinf(to_number("-inf")));
  for (const auto* word : {"", " 1", "1 ", "1,5", "one", "1e", "--1"}) {
    EXPECT_EQ(complaint(to_number, word), "'" + std::string(word) + "' is not a number");
  }
  EXPECT_EQ(complaint(to_number, "1e999"),
            "1e999 is too large; the largest number is 1.7976931348623157e+308");
}

TEST(Intervals, TellWhichEndsBelongToThem) {
  const double nan = std::nan("");
  const Interval closed{0, 1e12};
  EXPECT_EQ(to_string(closed), "from 0 to 1000000000000");
  EXPECT_TRUE(closed.contains(0) && closed.contains(1e12));
  EXPECT_FALSE(closed.contains(-1e-300) || closed.contains(1.1e12) || closed.contains(nan));
  const Interval open{0, 1, false, false};
  EXPECT_EQ(to_string(open), "above 0 and below 1");
  EXPECT_TRUE(open.contains(0.5));
  EXPECT_FALSE(open.contains(0) || open.contains(1) || open.contains(nan));
  EXPECT_EQ(to_string(Interval{0, 1, true, false}), "at least 0 and below 1");
  EXPECT_EQ(to_string(Interval{0.5, 1, false, true}), "above 0.5 and at most 1");
}

TEST(Shown, PlainTextStaysAsItIs) {
  for (const auto* text :
       {"", "runs/first", "a b", "Ü ‖XᴴX − I‖ 模型 🙂", "back\\slash 'quote'"}) {
    EXPECT_EQ(printable(std::string(text)), text);
  }
}

TEST(Shown, WhatATerminalActsOnIsEscaped) {
  EXPECT_EQ(printable(std::string("a\nb\tc\rd")), "a\\nb\\tc\\rd");
  EXPECT_EQ(printable(std::string("\033[31mred\007\177")), "\\x1b[31mred\\x07\\x7f");
  EXPECT_EQ(printable(std::string("\0z", 2)), "\\x00z");
  EXPECT_EQ(printable(std::string("\xc2\x9b[31m")),
            "\\xc2\\x9b[31m");  // the control sequence introducer of C1
}

TEST(Shown, BytesThatAreNotUtf8AreEscaped) {
  EXPECT_EQ(printable(std::string("\xff")), "\\xff");
  EXPECT_EQ(printable(std::string("a\xc3")), "a\\xc3");                  // cut short
  EXPECT_EQ(printable(std::string("\xc0\xaf")), "\\xc0\\xaf");           // longer than need be
  EXPECT_EQ(printable(std::string("\xed\xa0\x80")), "\\xed\\xa0\\x80");  // half of a pair of UTF-16
}

TEST(Shown, LinesStayLines) { EXPECT_EQ(printable_lines("one\n  two\033"), "one\n  two\\x1b"); }

/// The words that bash makes of a line.
std::vector<std::string> words_of(const std::string& line) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  const auto child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    const auto script = "for word in " + line + "; do printf '%s\\0' \"$word\"; done";
    execlp("bash", "bash", "-c", script.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::vector<std::string> words(1);
  char byte = 0;
  while (read(ends[0], &byte, 1) == 1) {
    if (byte == '\0') {
      words.emplace_back();
    } else {
      words.back() += byte;
    }
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) throw std::runtime_error("bash failed on: " + line);
  words.pop_back();
  return words;
}

TEST(ShellWords, PlainNamesAreNotQuoted) {
  for (const auto* name : {"runs/first", "runs/cifar10-wrn-16-4-cayley-sgd+so-1", "/a/b_c.d,e:f@g%h"}) {
    EXPECT_EQ(shell_word(name), name);
  }
}

TEST(ShellWords, TheShellReadsThemAsOneWordWithTheSameBytes) {
  for (const std::string name : {"a b",
                                 "it's",
                                 "$HOME",
                                 "`id`",
                                 "a;b",
                                 "a\nb",
                                 "tab\there",
                                 "\033[31m",
                                 "back\\slash",
                                 "back\\slash\n'",
                                 "~",
                                 "*",
                                 "a\"b",
                                 "Ü x",
                                 "\xff\xfe",
                                 "!x",
                                 "a&b",
                                 "#a",
                                 "=a",
                                 "{a,b}",
                                 "x\x01"
                                 "9",
                                 "(y)"}) {
    const auto word = shell_word(name);
    EXPECT_EQ(printable(word), word) << "can be printed";
    EXPECT_EQ(words_of(word), std::vector<std::string>{name}) << word;
  }
  EXPECT_EQ(words_of(shell_word("")), std::vector<std::string>{""});
}

TEST(ShellWords, NoNameIsTakenForAnOption) {
  EXPECT_EQ(shell_word("-o"), "./-o");
  EXPECT_EQ(words_of(shell_word("--out x")), std::vector<std::string>{"./--out x"});
}

}  // namespace text_test
