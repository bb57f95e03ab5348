#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <stdexcept>

#include "base/format_number.h"
#include "base/names.h"
#include "base/output_format.h"
#include "base/statistics.h"
#include "base/stopwatch.h"

// Numbers as people read them, names of enums, and statistics.

namespace number_format_test {

using namespace stiefel::base;

TEST(FormatNumber, AsPeopleReadThem) {
  EXPECT_EQ(format_percent(8.714), "8.71 %");
  EXPECT_EQ(format_loss(0.41234), "0.4123");
  EXPECT_EQ(format_loss(0), "0.0000");
  EXPECT_EQ(format_loss(1.234e-5), "1.23e-5");
  EXPECT_EQ(format_loss(2.5e12), "2.50e12");
  EXPECT_EQ(format_loss(-1.5e-4), "-1.50e-4");
  EXPECT_EQ(format_small(8.1e-7), "8.1e-7");
  EXPECT_EQ(format_small(0), "0");
  EXPECT_EQ(format_small(3), "3.0");
  EXPECT_EQ(format_seconds(7.123), "7.12 s");
  EXPECT_EQ(format_count(1234567), "1,234,567");
  EXPECT_EQ(format_count(-1234), "-1,234");
  EXPECT_EQ(format_count(-123), "-123");
  EXPECT_EQ(format_count(123), "123");
}

TEST(FormatNumber, DurationsHaveAtMostTwoParts) {
  EXPECT_EQ(format_duration(0), "0 s");
  EXPECT_EQ(format_duration(-1), "0 s");
  EXPECT_EQ(format_duration(59.4), "59 s");
  EXPECT_EQ(format_duration(59.6), "1 min 00 s") << "rounded before it is taken apart";
  EXPECT_EQ(format_duration(123), "2 min 03 s");
  EXPECT_EQ(format_duration(3599.6), "1 h 00 min");
  EXPECT_EQ(format_duration(7384), "2 h 03 min");
  EXPECT_EQ(format_duration(1e300), "–");
}

TEST(FormatNumber, WhatIsNotFiniteIsADash) {
  for (const double value :
       {std::nan(""), std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    for (const auto format :
         {format_percent, format_loss, format_small, format_seconds, format_duration, format_count})
      EXPECT_EQ(format(value), "–");
  }
}

enum class Size { kSmall, kMedium, kLarge };
constexpr Names<Size, 3> kSizes{
    {{Size::kSmall, "small"}, {Size::kMedium, "medium"}, {Size::kLarge, "large"}}};

TEST(NamesOfEnums, AreReadBack) {
  for (const auto& [value, name] : kSizes) {
    EXPECT_EQ(name_of(kSizes, value), name);
    EXPECT_EQ(from_name(kSizes, name, "--size"), value);
  }
  EXPECT_EQ(list_names(kSizes), "small, medium or large");
  EXPECT_EQ(list_names(Names<Size, 1>{{{Size::kSmall, "small"}}}), "small");
  EXPECT_THROW(name_of(Names<Size, 1>{{{Size::kSmall, "small"}}}, Size::kLarge), std::logic_error);
  try {
    from_name(kSizes, "tiny", "--size");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "--size is 'tiny'; it must be small, medium or large");
  }
  EXPECT_EQ(list_names(kOutputFormats), "table, md, csv or json");
}

TEST(Statistics, AgainstValuesByHand) {
  EXPECT_DOUBLE_EQ(mean({1, 2, 6}), 3);
  EXPECT_DOUBLE_EQ(*deviation({1, 2, 6}), std::sqrt(7.0));  // (4 + 1 + 9)/2
  EXPECT_FALSE(deviation({5}));
  EXPECT_DOUBLE_EQ(median({9, 1, 4}), 4);
  EXPECT_DOUBLE_EQ(median({9, 1, 4, 5}), 4.5);
  EXPECT_DOUBLE_EQ(slope({0, 1, 2, 3}, {1, 3, 5, 7}), 2);
  EXPECT_NEAR(slope({0, 1, 2}, {0, 1, 0.5}), 0.25, 1e-15);  // Σxy/Σxx = (0·… + 0.5)/2
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.25), 2.5);
  EXPECT_DOUBLE_EQ(quantile({3}, 0.9), 3);
}

TEST(Stopwatches, NeverGoBack) {
  const Stopwatch first;
  const Stopwatch second;
  double before = 0;
  for (int i = 0; i < 100; ++i) {
    const double later = second.seconds();
    EXPECT_GE(later, before);
    EXPECT_GE(first.seconds(), later);
    before = later;
  }
}

}  // namespace number_format_test
