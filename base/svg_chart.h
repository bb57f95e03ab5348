#pragma once

#include <string>
#include <vector>

#include "axis.h"

/// Line charts as SVG. Everything carries a class for a style sheet, and plain attributes for where there is
/// none.
namespace stiefel::base {

struct Point {
  double x;
  double y;
};

/// A value that holds from one place on the x axis to another.
struct Step {
  double from;
  double to;
  double y;
};

/// Where a plot lies, in pixels.
struct Box {
  double left;
  double top;
  double right;
  double bottom;
};

/// Runs and methods have these many colors; later ones are told apart by other means.
inline constexpr size_t kChartColors = 8;

/// A color that stays apart from the others under the common forms of color blindness; `index` modulo
/// kChartColors.
const char* chart_color(size_t index);

/// A coordinate to a tenth of a pixel.
std::string svg_coordinate(double value);

/// A <text> element; `attributes` may be empty.
std::string svg_text(double x, double y, const std::string& attributes, const std::string& text);

/// Grid lines at the ticks of the y axis, their labels to the left of the box, and the x axis's labels below
/// it.
std::string svg_grid(const Box& box, const Axis& x, const std::vector<double>& x_ticks, const Axis& y,
                     const std::vector<double>& y_ticks);

/// The two axes as lines, a mark at each tick of the x axis, and their titles, 38 pixels below the box and 50
/// to its left.
std::string svg_frame(const Box& box, const Axis& x, const std::vector<double>& x_ticks,
                      const std::string& across, const std::string& upward);

/// The d attribute of a path through the points; empty where none can be shown. A point that an axis does not
/// show breaks the line, and a point with no neighbor is a short line.
std::string svg_line(const std::vector<Point>& points, const Axis& x, const Axis& y);

/// The same through values that hold for a while.
std::string svg_steps(const std::vector<Step>& steps, const Axis& x, const Axis& y);

}  // namespace stiefel::base
