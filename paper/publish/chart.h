#pragma once

#include <string>
#include <vector>

#include "base/svg_chart.h"

/// The one way in which the paper's figures are drawn: plain SVG that looks the same on a page of its own, in
/// a document and inside a web page, whose style sheet may give the classes other colors.
namespace stiefel::paper {

/// A line in the color and dash of its name. A point that a logarithmic axis does not show breaks it.
struct Curve {
  std::string name;
  std::vector<base::Point> points;
};

/// Curves over a linear axis from 0 and up a logarithmic one.
struct Plot {
  std::string across;  ///< the axes' titles
  std::string upward;
  std::vector<Curve> curves;
};

/// What is drawn stands in the order of the calls; coordinates are in pixels.
class Drawing {
 public:
  /// `names` are all that curves may have: a name keeps its color whether the others are drawn or not.
  Drawing(double width, std::vector<std::string> names);

  void text(double x, double y, const std::string& attributes, const std::string& what);

  /// The plot with its axes; their labels stand outside the box, 60 to the left and 40 below. Nothing where
  /// no curve has a point to show.
  void plot(const Plot& plot, const base::Box& box);

  /// The sample of a curve's line, 24 wide, and its name.
  void key(double x, double y, const std::string& name);

  /// The SVG file, of that height.
  std::string finish(double height) const;

 private:
  std::string stroke(const std::string& name) const;

  double width_;
  std::vector<std::string> names_;
  std::string body_;
};

/// Whether a logarithmic axis can show the value.
bool drawable(double value);

}  // namespace stiefel::paper
