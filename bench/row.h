#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

/// The results of a comparison: a row per method.
namespace stiefel::bench {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// What one method showed. Numbers that were not measured are NaN.
struct Row {
  std::string workload;  ///< what was stepped or trained
  std::string method;
  std::vector<std::vector<double>> rounds;  ///< seconds of a step: the samples of each round

  double median_ms = kUnknown;  ///< of all samples
  double spread_ms = kUnknown;  ///< their interquartile range
  double least_ms = kUnknown;
  double eager_ms = kUnknown;  ///< on a GPU, where the other times are a graph's: launched kernel by kernel
  double ratio_to_sgd = kUnknown;
  double ratio_to_cayley_sgd = kUnknown;
  double gflops = kUnknown;            ///< products and solves per second, a Gram matrix counted whole
  double of_gemm = kUnknown;           ///< that rate over the rate of a large square product
  double of_gemm_executed = kUnknown;  ///< the same without what symmetry saved
  double defect = kUnknown;  ///< the largest ‖XᵀX − I‖_F after the timed steps; NaN without a constraint
  std::string operations;
  std::string lacks;
  std::string note;             ///< how it was measured, where that differs from the other rows
  int64_t steps_per_epoch = 0;  ///< of whole training steps; 0 for the step alone
  std::string failure;          ///< why it could not be measured; empty where it was
};

/// Adds to the list of what the method lacks.
void add_lack(Row& row, const std::string& what);

/// Median, interquartile range and least of the samples.
void summarize(Row& row);

/// The median over rounds of the ratio of two rows' times in the same round, so that what slows the machine
/// down for a while affects both. NaN where one of them was not measured.
double ratio_in_rounds(const Row& row, const Row& base);

/// Fills the ratios from the rows called sgd and cayley-sgd.
void fill_ratios(std::vector<Row>& rows);

/// The row of a method, or null.
const Row* find_row(const std::vector<Row>& rows, const std::string& method);

/// The rows of these methods, in this order; all rows where there are no names. Leaves out what was measured
/// for the ratios alone.
std::vector<Row> only(const std::vector<Row>& rows, const std::vector<std::string>& names);

}  // namespace stiefel::bench
