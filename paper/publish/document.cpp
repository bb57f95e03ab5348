#include "document.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <stdexcept>
#include <utility>

#include "base/markdown.h"
#include "base/printable.h"
#include "base/table.h"
#include "base/text_layout.h"
#include "curves.h"
#include "figure_svg.h"
#include "formats.h"
#include "paper/jobs/cached_results.h"
#include "paper/jobs/results.h"
#include "paper/jobs/run_store.h"
#include "paper/registry.h"
#include "provenance_table.h"

namespace stiefel::paper {

namespace fs = std::filesystem;

namespace {

constexpr size_t kLineLength = 130;

std::string paragraph(const std::string& text) {
  return fmt::format("{}\n\n", fmt::join(base::wrapped(text, kLineLength), "\n"));
}

/// The runs of one scale, and which of them stand in a table.
class ScaleRuns {
 public:
  ScaleRuns(const ScaleRuns&) = delete;  // it points into itself
  ScaleRuns& operator=(const ScaleRuns&) = delete;
  ScaleRuns(const fs::path& out, Scale scale) : scale_(scale), store_(out, scale) {
    for (const auto& record : store_.records()) {
      if (!record.finished()) continue;
      finished_.push_back(&record);
      seeds_.insert(record.config.seed);
    }
  }

  /// With every seed that some run has; a cell wants those that it has.
  Results collect(const Experiment& experiment) {
    Results results{&experiment, scale_, {}};
    // Runs are compared by their recipes: the machine that writes the document must not matter.
    RunEnvironment anywhere;
    anywhere.device = "cpu";
    const auto use = [this](const RunRecord& record) {
      if (std::find(used_.begin(), used_.end(), &record) == used_.end()) used_.push_back(&record);
    };
    for (const auto& cell : experiment.cells) {
      auto result = fill_cell(cell, seeds_, store_, scale_, anywhere, use);
      result.wanted = static_cast<int64_t>(result.measured.size());
      results.cells.push_back(std::move(result));
    }
    return results;
  }

  /// The finished runs: those that stand in tables in the tables' order, then the others.
  std::vector<const RunRecord*> in_order() const {
    auto all = used_;
    for (const auto* record : finished_) {
      if (!is_used(record)) all.push_back(record);
    }
    return all;
  }

  bool is_used(const RunRecord* record) const {
    return std::find(used_.begin(), used_.end(), record) != used_.end();
  }
  Scale scale() const { return scale_; }
  const RunStore& store() const { return store_; }

 private:
  Scale scale_;
  RunStore store_;
  std::vector<const RunRecord*> finished_;
  std::vector<const RunRecord*> used_;
  std::set<int64_t> seeds_;
};

using BothScales = std::array<ScaleRuns, 2>;

/// The names of rows or columns, in their order, that have no run.
std::vector<std::string> empty_ones(const Results& results, std::string Cell::*name,
                                    const std::vector<std::string>& names) {
  std::vector<std::string> empty;
  for (const auto& one : names) {
    const bool filled = std::any_of(
        results.cells.begin(), results.cells.end(),
        [&](const CellResult& result) { return result.cell.*name == one && !result.measured.empty(); });
    if (!filled) empty.push_back(one);
  }
  return empty;
}

class Writer {
 public:
  explicit Writer(fs::path out) : out_(std::move(out)) {
    const auto whole = fs::absolute(out_ / "").lexically_normal().parent_path();
    beside_ = whole.filename();  // OUT as it is seen from the folder it lies in
  }

  Document write() {
    BothScales all{{{out_, Scale::kFull}, {out_, Scale::kShort}}};
    std::string sections;
    std::vector<std::string> not_run;
    std::vector<std::string> not_computed;
    for (const auto& experiment : experiments()) {
      std::string text;
      for (auto& runs : all) {
        if (!experiment.compute) {
          text += section(runs.collect(experiment));
        } else if (text.empty() || !experiment.lessened.empty()) {
          // Where nothing is less at short scale, it would be the same section again.
          text += kept_section(experiment, runs.scale());
        }
      }
      if (text.empty()) (experiment.compute ? not_computed : not_run).push_back(experiment.name);
      sections += text;
    }
    const auto table = run_table(all);
    for (const auto& runs : all) {
      const auto& complaints = runs.store().complaints();
      document_.complaints.insert(document_.complaints.end(), complaints.begin(), complaints.end());
    }
    if (table.empty() && sections.empty()) {
      throw std::runtime_error(
          fmt::format("{} has no finished run and no kept theorem of scale full or short; run `stiefel paper "
                      "table1 --out {}` or copy runs into {}{}{}",
                      base::printable(out_), base::shell_word(out_), base::printable(out_ / "full"),
                      document_.complaints.empty() ? "" : "\n", fmt::join(document_.complaints, "\n")));
    }
    document_.markdown = introduction(not_run, not_computed) + sections + table;
    return std::move(document_);
  }

 private:
  std::string introduction(const std::vector<std::string>& not_run,
                           const std::vector<std::string>& not_computed) const {
    const auto folder = (out_ / "").lexically_normal().parent_path();
    const auto file = (folder.empty() || folder == "." ? "results" : folder.generic_string()) + ".md";
    auto text = fmt::format(
        "# The paper's experiments, run here\n\n"
        "Made from the runs and the kept computations in {}, and from nothing else, by\n\n"
        "    stiefel paper results --out {} > {}\n\n",
        base::markdown_link(beside_.generic_string(), beside_.generic_string()), out_.generic_string(), file);
    text += paragraph(
        "\"Ours\" is the test error after the last epoch, never the best epoch's, unless the table says "
        "otherwise: the mean ± the standard deviation over the seeds where there are several, one run where "
        "there is no ±. The paper's figure and the difference from it stand below. An empty cell has not "
        "been run. What was run shorter than in the paper is marked so above its table.");
    text += paragraph(
        (not_run.empty() ? std::string() : fmt::format("Not run at all: {}. ", fmt::join(not_run, ", "))) +
        "How to run what is missing: [reproducing the paper](reproducing.md).");
    if (not_computed.empty()) return text;
    text += "Not computed yet, and in need of no runs:\n\n";
    for (const auto& name : not_computed)
      text += fmt::format("    stiefel paper {} --out {}\n", name, base::shell_word(out_.generic_string()));
    return text + "\n";
  }

  /// The section of what was computed at a scale and kept; nothing where nothing was.
  std::string kept_section(const Experiment& experiment, Scale scale) {
    try {
      const auto kept = read_cached_results(experiment, scale, out_);
      if (!kept) return "";
      const auto file = beside_ / cached_results_file(experiment, scale, "");
      auto text = format_results(*kept, judge(*kept), "md");
      text += fmt::format("- **Computed:** {}: {}\n\n", computed_line(*kept),
                          base::markdown_link(file.filename().string(), file.generic_string()));
      return text;
    } catch (const std::exception& error) {
      document_.complaints.push_back(fmt::format("left out: {}", error.what()));
      return "";
    }
  }

  /// Nothing where no cell is filled. The verdict is on all cells, those that the table leaves out included.
  std::string section(const Results& results) {
    const auto& experiment = *results.experiment;
    const auto columns = empty_ones(results, &Cell::column, experiment.columns());
    const auto rows = empty_ones(results, &Cell::row, experiment.rows());
    if (rows.size() == experiment.rows().size()) return "";
    auto shown = results;
    const auto is_empty = [&](const CellResult& result) {
      return std::count(columns.begin(), columns.end(), result.cell.column) > 0 ||
             std::count(rows.begin(), rows.end(), result.cell.row) > 0;
    };
    shown.cells.erase(std::remove_if(shown.cells.begin(), shown.cells.end(), is_empty), shown.cells.end());
    const auto verdict = judge(results);
    auto text = format_results(shown, verdict, "md");
    if (!rows.empty() || !columns.empty()) {
      text += fmt::format("- **Not run, and left out above:** {}{}{}\n", fmt::join(rows, ", "),
                          rows.empty() || columns.empty() ? "" : "; ", fmt::join(columns, ", "));
    }
    return text + "\n" + drawings(results, verdict);
  }

  std::string drawings(const Results& results, const Verdict& verdict) {
    const auto& experiment = *results.experiment;
    std::string text;
    if (experiment.draws_columns) {
      for (const auto& network : experiment.columns()) {
        int64_t runs = 0;
        std::string data;
        for (const auto& result : results.cells) {
          if (result.cell.column != network) continue;
          runs += static_cast<int64_t>(result.measured.size());
          data = result.cell.recipe->config.data;
        }
        if (runs < 2) continue;
        text += add_drawing(results.scale, fmt::format("curves-{}-{}.svg", data, network),
                            fmt::format("Training loss and test error of {} on {} by epoch", network, data),
                            draw_curves(results, network, data));
      }
    }
    if (experiment.axis != Experiment::Axis::kNone) {
      for (const auto& panel : experiment.columns()) {
        text +=
            add_drawing(results.scale, fmt::format("{}-{}.svg", experiment.name, panel),
                        fmt::format("{}, {}", experiment.title, panel), draw_panel(results, verdict, panel));
      }
    }
    return text;
  }

  /// The line that shows the drawing; nothing where it is empty.
  std::string add_drawing(Scale scale, const std::string& name, const std::string& title,
                          const std::string& svg) {
    if (svg.empty()) return "";
    const auto place = fs::path(to_string(scale)) / name;
    document_.drawings.emplace_back(out_ / place, svg);
    return "!" + base::markdown_link(title, (beside_ / place).generic_string()) + "\n\n";
  }

  /// A row for every finished run; nothing where there is none.
  std::string run_table(const BothScales& all) const {
    base::Table::Row titles;
    std::string alignment;
    for (const auto& column : provenance_columns()) {
      titles.push_back(column.title);
      alignment += column.number ? 'r' : 'l';
    }
    base::Table table(std::move(titles), alignment);
    bool any_unused = false;
    for (const auto& runs : all) {
      for (const auto* record : runs.in_order()) {
        auto cells = provenance_row(*record);
        const auto folder = beside_ / to_string(runs.scale()) / record->folder.filename();
        cells[0] = base::markdown_link(cells[0], folder.generic_string());
        if (runs.scale() != Scale::kFull) cells[0] += " (" + to_string(runs.scale()) + ")";
        if (!runs.is_used(record)) {
          cells[0] += " †";
          any_unused = true;
        }
        table.add(std::move(cells));
      }
    }
    if (table.rows().empty()) return "";
    auto text =
        "## Runs\n\n" +
        paragraph(
            "The error is the last epoch's in per cent; the defect is the largest ‖XᵀX − I‖ of the "
            "orthonormal weights after it; s/epoch is the median, training alone. The first column leads "
            "to the run. Runs may have shared a GPU with others, so their times tell how long "
            "these took, not which method is faster; [performance](performance.md) compares those.") +
        base::to_markdown(table);
    if (any_unused) {
      text +=
          "\n† No cell above is this run's: its options are not a recipe's, or another run with the same "
          "options "
          "stands there.\n";
    }
    return text;
  }

  fs::path out_;
  fs::path beside_;
  Document document_;
};

}  // namespace

Document make_document(const fs::path& out) { return Writer(out).write(); }

}  // namespace stiefel::paper
