#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "paper/jobs/run_record.h"
#include "record/config.h"
#include "scale.h"
#include "unitariness.h"

/// The paper's tables, figures and theorems as declarations, and the engine that fills them.
namespace stiefel::paper {

/// A figure that the paper prints for a cell; `where` is empty in the cell's own table.
struct Printed {
  double value;
  std::string where;
};

/// A measurement in place of a training run: how unitary one form of the iteration keeps K.
struct UnitarinessPart {
  CayleyForm form = CayleyForm::kPrinted;
  int64_t rounds = 2;
  bool closed = false;
  int64_t iterations = 100;
};

/// What is run, at full scale and for any seed. The config is not resolved: what follows from its epochs must
/// follow from a shorter run's as well. Cells with the same recipe share a run.
struct Recipe {
  record::Config config;
  std::optional<UnitarinessPart> unitariness;
};

/// What a cell takes from a finished run.
using CellValue = double (*)(const RunRecord&);

/// How its numbers are written.
enum class Style {
  kPercent,  ///< 5.43
  kTime,     ///< 102.5, or 0.0123
  kSmall,    ///< 7.384e-06
  kLoss,     ///< 0.0036
  kSlope,    ///< -0.743
};

struct Cell {
  std::string row;
  std::string column;
  Style style = Style::kPercent;
  std::optional<Recipe> recipe;  ///< nothing where the experiment computes its cells itself
  CellValue read = nullptr;
  std::vector<Printed> printed;  ///< the cell's own table first
};

/// One number of ours: a run's, or a computation's.
struct Measured {
  int64_t seed = 1;
  double value = 0;
  nlohmann::json origin;                      ///< see provenance()
  std::vector<record::EpochMetrics> history;  ///< for the curves
};

struct CellResult {
  Cell cell;
  int64_t wanted = 1;              ///< seeds asked for
  std::vector<Measured> measured;  ///< those that are there
  std::optional<bool> passes;      ///< where the experiment is a test of the cell
  std::string remark;              ///< an interval, for instance

  std::optional<double> mean() const;
  std::optional<double> deviation() const;
  /// Ours less the paper's.
  std::optional<double> difference() const;
};

/// Whether our runs bear out what the paper claims.
struct Verdict {
  enum class Kind { kBorneOut, kNotBorneOut, kOpen } kind = Kind::kOpen;
  std::string why;
};
std::string to_string(Verdict::Kind kind);
std::string to_string(const Verdict& verdict);  ///< with why

/// A rival's loss, error or time as verdicts compare it: where it is not finite the rival diverged, which is
/// worse than any number.
double or_worst(double value);

/// The verdict where `ours` diverged: the claim is not borne out.
Verdict diverged(const std::string& ours);

struct Experiment;

struct Results {
  const Experiment* experiment = nullptr;
  Scale scale = Scale::kFull;
  std::vector<CellResult> cells;

  /// The cell's mean; nothing where it is empty, was not chosen or does not exist.
  std::optional<double> mean(const std::string& row, const std::string& column) const;
  const CellResult* find(const std::string& row, const std::string& column) const;

  /// Of the cells that are here, in their order.
  std::vector<std::string> rows() const;
  std::vector<std::string> columns() const;
};

struct Experiment {
  /// What a figure is drawn over; a table has none.
  enum class Axis { kNone, kEpochs, kSeconds };

  std::string name;
  std::string title;
  std::string claim;    ///< what the paper says
  std::string test;     ///< when our runs bear it out
  std::string note;     ///< what the recipes take where the paper is silent
  std::string subject;  ///< what the rows are: method, hidden size …
  std::vector<Cell> cells;
  Axis axis = Axis::kNone;
  bool draws_columns = false;  ///< the document draws the training curves of each column's runs
  int64_t seeds = 1;           ///< unless the user says otherwise
  std::string lessened;        ///< of a computation: what is less at a lesser scale; empty where nothing is

  /// Cells whose numbers (seconds, rounding) compare only where one kind of processor, LibTorch and precision
  /// made them: the verdict is open otherwise. Empty: none.
  std::function<bool(const Cell&)> alike;

  /// Whether the claim holds, of results at full or short scale. May be empty.
  std::function<Verdict(const Results&)> judge;

  /// Fills the chosen cells without any run: theorems. `progress` is called with what is being done.
  std::function<void(Results&, int64_t seeds, const std::function<void(const std::string&)>& progress)>
      compute;

  /// In the order of the cells.
  std::vector<std::string> rows() const;
  std::vector<std::string> columns() const;
};

/// The cells of `--only ROW,COLUMN`, either of which may be empty. Throws std::invalid_argument listing what
/// there is where one is not known.
std::vector<Cell> choose_cells(const Experiment& experiment, const std::string& only);

}  // namespace stiefel::paper
