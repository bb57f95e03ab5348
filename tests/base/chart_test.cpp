#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "base/axis.h"
#include "base/svg_chart.h"

// Axes and what is drawn on them.

namespace chart_test {

using namespace stiefel::base;
using Ticks = std::vector<double>;

Axis axis(Axis::Scale scale, const std::vector<double>& values, double margin = 0) {
  Axis result(100, 300, scale);
  for (const double value : values) result.include(value);
  result.settle(margin);
  return result;
}

TEST(Axes, LeadFromValuesToPixels) {
  const auto linear = axis(Axis::Scale::kLinear, {-1, 3, NAN, INFINITY});
  EXPECT_DOUBLE_EQ(linear(-1), 100);
  EXPECT_DOUBLE_EQ(linear(3), 300);
  EXPECT_DOUBLE_EQ(linear(1), 200);
  const auto log = axis(Axis::Scale::kLog, {1e-2, 1e2, 0, -5});
  EXPECT_DOUBLE_EQ(log(1e-2), 100);
  EXPECT_DOUBLE_EQ(log(1), 200);
  EXPECT_TRUE(log.shows(1e-200));
  EXPECT_FALSE(log.shows(1e-300));
  EXPECT_FALSE(log.shows(0) || log.shows(-1) || log.shows(NAN) || log.shows(INFINITY));
  EXPECT_TRUE(linear.shows(0) && linear.shows(-1));
  EXPECT_DOUBLE_EQ(axis(Axis::Scale::kLinear, {0, 8}, 0.125)(0), 120) << "an eighth of 8 at both ends";
}

TEST(Axes, ASingleValueIsInTheMiddleAndNoValueIsHarmless) {
  for (const auto scale : {Axis::Scale::kLinear, Axis::Scale::kLog}) {
    for (const double value : {1e-8, 1.0, 12345.0}) EXPECT_NEAR(axis(scale, {value})(value), 200, 1e-6);
    EXPECT_FALSE(axis(scale, {}).ticks(5).empty());
  }
  EXPECT_NEAR(axis(Axis::Scale::kLinear, {0})(0), 200, 1e-6);
}

TEST(Ticks, AreRoundAndWithinTheRange) {
  EXPECT_EQ(axis(Axis::Scale::kLinear, {0, 200}).ticks(4), (Ticks{0, 50, 100, 150, 200}));
  EXPECT_EQ(axis(Axis::Scale::kLinear, {0, 3}).ticks(7, true), (Ticks{0, 1, 2, 3}));
  EXPECT_EQ(axis(Axis::Scale::kLog, {1e-3, 10}).ticks(10), (Ticks{1e-3, 1e-2, 1e-1, 1, 10}));
  EXPECT_EQ(axis(Axis::Scale::kLog, {0.05, 1}).ticks(10), (Ticks{0.05, 0.1, 0.2, 0.5, 1}));
  EXPECT_EQ(axis(Axis::Scale::kLog, {5, 9}).ticks(10), (Ticks{5, 6, 7, 8, 9}));
  // An end that is a multiple of the step has its tick, whatever the last bit of the product is.
  EXPECT_NEAR(axis(Axis::Scale::kLinear, {0, 0.3}).ticks(3).back(), 0.3, 1e-12);
  for (const auto scale : {Axis::Scale::kLinear, Axis::Scale::kLog}) {
    for (const double low : {1e-9, 1e-3, 0.7, 42.0}) {
      for (const double ratio : {1.0001, 1.3, 4.0, 1e2, 1e7, 1e12}) {
        const auto one = axis(scale, {low, low * ratio});
        const auto ticks = one.ticks(5);
        EXPECT_GE(ticks.size(), 2u) << low << " " << ratio;
        EXPECT_LE(ticks.size(), 12u) << low << " " << ratio;
        for (size_t i = 0; i < ticks.size(); ++i) {
          ASSERT_TRUE(one.shows(ticks[i])) << low << " " << ratio;
          EXPECT_GE(one(ticks[i]), 100 - 1e-3);
          EXPECT_LE(one(ticks[i]), 300 + 1e-3);
          if (i > 0) {
            EXPECT_GT(ticks[i], ticks[i - 1]);
          }
        }
      }
    }
  }
}

TEST(Ticks, LabelsAreShort) {
  EXPECT_EQ(tick_label(0), "0");
  EXPECT_EQ(tick_label(0.30000000000000004), "0.3");
  EXPECT_EQ(tick_label(0.001), "0.001");
  EXPECT_EQ(tick_label(5e-4), "5e-4");
  EXPECT_EQ(tick_label(1.5e-7), "1.5e-7");
  EXPECT_EQ(tick_label(200000), "200000");
  EXPECT_EQ(tick_label(2e6), "2e6");
  EXPECT_EQ(tick_label(-50), "-50");
}

TEST(SvgLines, WhatAnAxisDoesNotShowBreaksThem) {
  const auto x = axis(Axis::Scale::kLinear, {0, 4});
  const auto y = axis(Axis::Scale::kLog, {1, 100});
  EXPECT_EQ(svg_line({{0, 1}, {1, 10}, {2, 0}, {3, 100}, {4, 1}}, x, y),
            "M100.0 100.0L150.0 200.0M250.0 300.0L300.0 100.0");
  EXPECT_EQ(svg_line({{0, NAN}, {2, 10}, {4, -1}}, x, y), "M200.0 200.0m-4 0h8") << "a lone point";
  EXPECT_EQ(svg_line({{0, NAN}, {NAN, 10}}, x, y), "");
  EXPECT_EQ(svg_line({}, x, y), "");
  EXPECT_EQ(svg_steps({{0, 1, 1}, {1, 2, 10}, {2, 3, NAN}, {3, 4, 10}}, x, y),
            "M100.0 100.0H150.0V200.0H200.0M250.0 200.0H300.0");
}

TEST(SvgCharts, TextIsEscapedAndEveryTickIsLabeled) {
  EXPECT_EQ(svg_text(1, 2.04, "", "a<b & \"c\""),
            "<text x=\"1.0\" y=\"2.0\">a&lt;b &amp; &quot;c&quot;</text>\n");
  const auto x = axis(Axis::Scale::kLinear, {0, 4});
  const auto y = axis(Axis::Scale::kLog, {1, 100});
  const auto grid = svg_grid({100, 100, 300, 300}, x, {0, 2}, y, {1, 10, 100});
  for (const char* label : {">0</text>", ">2</text>", ">1</text>", ">10</text>", ">100</text>"})
    EXPECT_NE(grid.find(label), std::string::npos) << label;
  const auto frame = svg_frame({100, 100, 300, 300}, x, {0, 2}, "time <s>", "loss");
  EXPECT_NE(frame.find("time &lt;s&gt;"), std::string::npos);
  EXPECT_NE(frame.find("M200.0 300.0v5"), std::string::npos) << frame;
}

TEST(SvgCharts, ColorsAreDifferentAndRepeat) {
  std::set<std::string> colors;
  for (size_t i = 0; i < kChartColors; ++i) colors.insert(chart_color(i));
  EXPECT_EQ(colors.size(), kChartColors);
  EXPECT_STREQ(chart_color(kChartColors + 1), chart_color(1));
}

}  // namespace chart_test
