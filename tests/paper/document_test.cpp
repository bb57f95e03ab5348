#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "base/files.h"
#include "paper/jobs/cached_results.h"
#include "paper/jobs/results.h"
#include "paper/publish/chart.h"
#include "paper/publish/curves.h"
#include "paper/publish/document.h"
#include "paper/publish/page.h"
#include "paper_samples.h"
#include "record/kept_run.h"
#include "tests/scratch.h"

// What is made for people from finished runs: the document, its curves, the web page.

namespace document_test {

namespace fs = std::filesystem;
namespace base = stiefel::base;
namespace record = stiefel::record;
using namespace stiefel::paper;
using samples::computed_theorem;
using samples::write_cell_run;

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

#define EXPECT_SAYS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (part) << "\n" << (text)
#define EXPECT_NOT_SAYS(text, part) \
  EXPECT_EQ((text).find(part), std::string::npos) << (part) << "\n" << (text)

using Cells = std::vector<std::vector<std::string>>;

/// The first table of a document's section that begins with `## NAME`: its header and its rows without the
/// rule between them. An empty first cell means the row's name above it, which is filled in.
Cells table_of(const std::string& document, const std::string& name) {
  Cells table;
  std::istringstream lines(document.substr(std::min(document.find("\n## " + name) + 1, document.size())));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("## ", 0) == 0 && line.rfind("## " + name, 0) != 0) break;
    if (line.rfind("|", 0) != 0) {
      if (!table.empty()) break;
      continue;
    }
    if (line.rfind("|---", 0) == 0) continue;
    std::vector<std::string> row;
    for (size_t at = 2, end = 0; (end = line.find(" |", at)) != std::string::npos; at = end + 3)
      row.push_back(at > end ? "" : line.substr(at, end - at));
    if (!table.empty() && row.at(0).empty()) row[0] = table.back()[0];
    table.push_back(std::move(row));
  }
  return table;
}

/// The cell of a row, whose first cells are `row`, under the column of that title; "(none)" where there is
/// none.
std::string cell(const Cells& table, const std::vector<std::string>& row, const std::string& column) {
  if (table.empty()) return "(none)";
  const auto at = std::find(table[0].begin(), table[0].end(), column) - table[0].begin();
  for (const auto& line : table) {
    if (std::equal(row.begin(), row.end(), line.begin()) && at < static_cast<long>(line.size()))
      return line[static_cast<size_t>(at)];
  }
  return "(none)";
}

/// The row of a table of runs that links to the folder, by column.
std::map<std::string, std::string> run_row(const std::string& document, const std::string& folder) {
  const auto table = table_of(document, "Runs");
  std::map<std::string, std::string> row;
  for (const auto& line : table) {
    if (line[0].find(folder) == std::string::npos) continue;
    for (size_t i = 0; i < line.size(); ++i) row[table[0][i]] = line[i];
  }
  return row;
}

class Runs : public scratch::Test {
 protected:
  /// Two networks of six by all methods.
  void write_eight() const {
    double error = 5;
    for (const auto* method : {"sgd", "adam", "cayley-sgd", "cayley-adam"}) {
      for (const auto* network : {"vgg-13", "wrn-16-4"})
        write_cell_run(out_, "table1", std::string(method) + "," + network, error += 0.11);
    }
  }

  Results collected(const std::string& name, int64_t seeds = 1, Scale scale = Scale::kFull) const {
    const auto& experiment = find_experiment(name);
    return collect_results(experiment, experiment.cells, seeds, scale, {"cpu", "auto", 0, ""}, out_);
  }

  const fs::path out_ = folder_ / "results";
};

TEST_F(Runs, EightOfTwentyFourCellsMakeAReadableDocument) {
  write_eight();
  const auto document = make_document(out_);
  const auto& text = document.markdown;
  EXPECT_TRUE(document.complaints.empty());
  EXPECT_EQ(text.rfind("# ", 0), 0u);
  EXPECT_SAYS(text, "stiefel paper results --out");
  const auto table = table_of(text, "table1");
  ASSERT_FALSE(table.empty());
  EXPECT_EQ(table[0], (std::vector<std::string>{"method", "", "vgg-13", "wrn-16-4"}));
  EXPECT_EQ(cell(table, {"sgd", "ours"}, "vgg-13"), "5.11");
  EXPECT_EQ(cell(table, {"sgd", "ours"}, "wrn-16-4"), "5.22");
  EXPECT_EQ(cell(table, {"sgd", "the paper's"}, "vgg-13"), "5.88");
  EXPECT_EQ(cell(table, {"sgd", "the paper's"}, "wrn-16-4"), "4.96");
  EXPECT_EQ(cell(table, {"sgd", "difference"}, "vgg-13"), "-0.77");
  EXPECT_EQ(cell(table, {"sgd", "difference"}, "wrn-16-4"), "+0.26");
  EXPECT_EQ(cell(table, {"cayley-adam", "ours"}, "wrn-16-4"), "5.88");
  EXPECT_SAYS(text, "left out above:** vgg-16, vgg-19, wrn-52-1, wrn-28-10\n");
  EXPECT_SAYS(text, "**Here:** open: Cayley ADAM on wrn-28-10 has not been run");
  EXPECT_SAYS(text, "Not run at all: table2, table3, table4, table5, figure1, figure2.");
  EXPECT_NOT_SAYS(text, "## table2");
  EXPECT_NOT_SAYS(text, "†");
  // A row per run: the last error, the defect after the last epoch, and no best one.
  EXPECT_EQ(table_of(text, "Runs").size(), 1 + 8u);
  const std::map<std::string, std::string> run{
      {"data", "[cifar10](results/full/cifar10-wrn-16-4-cayley-adam-1)"},
      {"network", "wrn-16-4"},
      {"method", "cayley-adam"},
      {"seed", "1"},
      {"epochs", "200"},
      {"last test error", "5.88"},
      {"defect at end", "3.6e-06"},
      {"seconds", "1234"},
      {"s/epoch", "4.25"},
      {"precision", "bf16"},
      {"device", "a <card> \\| b"},
      {"LibTorch", "9.9"},
      {"commit", "0123456-dirty"},
      {"date", "2026-01-31"}};
  EXPECT_EQ(run_row(text, "cifar10-wrn-16-4-cayley-adam-1"), run);
  // One drawing per network, where the links lead.
  ASSERT_EQ(document.drawings.size(), 2u);
  EXPECT_EQ(document.drawings[0].first, out_ / "full" / "curves-cifar10-vgg-13.svg");
  EXPECT_SAYS(text, "](results/full/curves-cifar10-wrn-16-4.svg)");
  for (const auto& [file, svg] : document.drawings) {
    EXPECT_EQ(count(svg, "class=\"curve"), 12u) << "four methods in two plots and in the key";
    for (const char* part : {"training loss", "test error, %", "epoch", "cayley-adam", "#fff"})
      EXPECT_SAYS(svg, part);
    EXPECT_NOT_SAYS(svg, "nan");
    EXPECT_NOT_SAYS(svg, "inf");
  }
}

TEST_F(Runs, AContinuedRunNamesTheCommitsOfItsParts) {
  write_eight();
  const auto file = out_ / "full" / "cifar10-vgg-13-sgd-1" / "run.json";
  auto facts = nlohmann::json::parse(stiefel::base::read_file(file));
  facts["earlier"] = {{{"commit", "89abcdef0123"}}, {{"commit", "89abcdef0123"}}, {{"commit", 7}}, "no part"};
  stiefel::base::write_file(file, facts.dump());
  EXPECT_EQ(run_row(make_document(out_).markdown, "cifar10-vgg-13-sgd-1")["commit"],
            "89abcde, then 0123456-dirty");
}

TEST_F(Runs, TheSameRunsGiveTheSameBytes) {
  write_eight();
  ASSERT_TRUE(cache_results(computed_theorem("theorem2"), out_));
  const auto first = make_document(out_);
  const auto again = make_document(out_);
  EXPECT_EQ(first.markdown, again.markdown);
  EXPECT_EQ(first.drawings, again.drawings);
  // Nor does it matter where the folder lies, beyond the commands that name it.
  fs::create_directories(folder_ / "elsewhere");
  fs::copy(out_, folder_ / "elsewhere" / "results", fs::copy_options::recursive);
  auto moved = make_document(folder_ / "elsewhere" / "results" / "").markdown;
  const auto without_commands = [](const std::string& text) {
    return std::regex_replace(text, std::regex("(    stiefel paper \\w+ --out)[^\n]*"), "$1");
  };
  EXPECT_EQ(without_commands(moved), without_commands(first.markdown));
}

TEST_F(Runs, KeptRunsGiveTheDocumentOfTheirFolders) {
  write_eight();
  const auto of_folders = make_document(out_);
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(out_ / "full")) {
    if (entry.is_directory()) folders.push_back(entry.path());
  }
  ASSERT_EQ(folders.size(), 8u);
  const auto without_links = [](const std::string& text) {
    return std::regex_replace(text, std::regex(R"(\(results/full/[^)]*\))"), "");
  };
  for (const auto& folder : folders) {
    base::write_file(folder.string() + ".json", record::kept_run_text(record::read_run(folder)));
  }
  EXPECT_EQ(make_document(out_).markdown, of_folders.markdown)
      << "a folder comes before the file of its name";
  for (const auto& folder : folders) fs::remove_all(folder);
  // A result beside them is none, and one that is cut is named.
  base::write_file(out_ / "full" / "table1.json", "{\"cells\": []}");
  base::write_file(out_ / "full" / "cut.json", "{\n\"stiefel_run\": 1,");
  const auto of_files = make_document(out_);
  EXPECT_EQ(without_links(of_files.markdown), without_links(of_folders.markdown));
  EXPECT_SAYS(of_files.markdown, "](results/full/cifar10-wrn-16-4-cayley-adam-1.json)");
  ASSERT_EQ(of_files.complaints.size(), 1u);
  EXPECT_SAYS(of_files.complaints[0], "cut.json: line 2: broken JSON");
}

TEST_F(Runs, SeedsShorterRunsAndStrangersAreToldApart) {
  write_eight();
  write_cell_run(out_, "table1", "sgd,vgg-13", 5.31, 7);
  write_cell_run(out_, "table1", "adam,vgg-13", 99, 1, Scale::kFull, "a second one");
  write_cell_run(out_, "table2", "sgd,vgg-13", 27, 1, Scale::kShort);
  write_cell_run(out_, "table2", "sgd,vgg-16", 66.6, 1, Scale::kSmoke);
  fs::create_directories(out_ / "full" / "damaged");
  base::write_file(out_ / "full" / "damaged" / "run.json", "{");
  base::write_file(out_ / "full" / "damaged" / "config.toml", "epochs = 1\n");
  const auto document = make_document(out_);
  const auto& text = document.markdown;
  EXPECT_EQ(cell(table_of(text, "table1"), {"sgd", "ours"}, "vgg-13"), "5.21 ± 0.14");
  EXPECT_EQ(cell(table_of(text, "table1"), {"sgd", "ours"}, "wrn-16-4"), "5.22");
  auto second = run_row(text, "a second one");
  EXPECT_EQ(second["data"], "[cifar10](<results/full/a second one>) †");
  EXPECT_EQ(second["network"] + " " + second["method"], "vgg-13 adamw");
  EXPECT_EQ(count(text, "99.00"), 1u) << "in the table of runs only";
  EXPECT_SAYS(text, "**short: a tenth");
  EXPECT_EQ(cell(table_of(text, "table2"), {"sgd", "ours"}, "vgg-13"), "27.00");
  EXPECT_SAYS(text, "left out above:** adam, cayley-sgd, cayley-adam; vgg-16");
  EXPECT_SAYS(run_row(text, "cifar100-vgg-13-sgd-1")["data"], "(short)");
  EXPECT_NOT_SAYS(text, "66.6");
  EXPECT_EQ(document.drawings.size(), 2u) << "a single run is no comparison";
  ASSERT_EQ(document.complaints.size(), 1u);
  EXPECT_SAYS(document.complaints[0], "damaged");
}

TEST_F(Runs, OfWideNetworksTheFiguresAreDrawnToo) {
  write_cell_run(out_, "table1", "cayley-adam,wrn-28-10", 3.6);
  const auto document = make_document(out_);
  for (const char* part :
       {"## table1", "## table3", "## figure1", "## figure2", "(results/full/figure2-cifar10.svg)"})
    EXPECT_SAYS(document.markdown, part);
  const auto table = table_of(document.markdown, "table3");
  EXPECT_EQ(cell(table, {"cayley-adam", "ours"}, table[0].at(2)), "3.60");
  EXPECT_EQ(cell(table, {"cayley-adam", "ours"}, table[0].at(3)), "4.25");
  EXPECT_EQ(document.drawings.size(), 2u);
}

TEST_F(Runs, NoRunIsAnError) {
  write_cell_run(out_, "table1", "sgd,vgg-13", 40, 1, Scale::kSmoke);
  try {
    make_document(out_);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_SAYS(std::string(error.what()), "no finished run");
  }
}

TEST_F(Runs, KeptTheoremsAreSections) {
  write_cell_run(out_, "table1", "sgd,vgg-13", 5.5);
  ASSERT_TRUE(cache_results(computed_theorem("theorem1", Scale::kSmoke), out_));
  auto text = make_document(out_).markdown;
  EXPECT_NOT_SAYS(text, "## theorem") << "smoke never counts";
  EXPECT_SAYS(text,
              "\n    stiefel paper theorem1 --out " + out_.string() + "\n    stiefel paper theorem2 --out ");

  auto first = computed_theorem("theorem1");
  ASSERT_TRUE(cache_results(first, out_));
  ASSERT_TRUE(cache_results(computed_theorem("theorem1", Scale::kShort), out_));
  auto document = make_document(out_);
  EXPECT_TRUE(document.complaints.empty());
  text = document.markdown;
  const auto table = table_of(text, "theorem1");
  ASSERT_EQ(table.at(0).size(), 4u);
  for (const auto& column : {table[0][2], table[0][3]}) {
    EXPECT_EQ(cell(table, {"s=0", "ours"}, column), "2.020 ± 0.014");
    EXPECT_EQ(cell(table, {"s=0", "the paper's"}, column), "2.000");
    EXPECT_EQ(cell(table, {"s=0", "difference"}, column), "+0.020");
    EXPECT_EQ(cell(table, {"s=0", "passes"}, column), "yes");
  }
  EXPECT_EQ(cell(table, {"s=0", ""}, table[0][2]), "95 % of something");
  EXPECT_EQ(cell(table, {"s=0", ""}, table[0][3]), "");
  EXPECT_SAYS(text, "**Here:** borne out: 7 of 7 pass\n");
  EXPECT_SAYS(text,
              "- **Computed:** 2 seeds, a processor, fp64, LibTorch 9.9, commit 0123456, 2026-01-31: "
              "[theorem1.json](results/full/theorem1.json)\n\n");
  EXPECT_EQ(count(text, "## theorem1"), 1u) << "the same is computed at short scale";
  EXPECT_NOT_SAYS(text, "stiefel paper theorem1 --out");
  EXPECT_SAYS(text, "    stiefel paper theorem2 --out");
  EXPECT_LT(text.find("## table1"), text.find("## theorem1"));
  EXPECT_LT(text.find("## theorem1"), text.find("## Runs"));
  EXPECT_EQ(make_document(out_).markdown, text);

  // Of Theorem 2 less is computed at short scale, and marked.
  ASSERT_TRUE(cache_results(computed_theorem("theorem2", Scale::kShort), out_));
  ASSERT_TRUE(cache_results(computed_theorem("theorem2"), out_));
  text = make_document(out_).markdown;
  EXPECT_EQ(count(text, "## theorem2"), 2u);
  EXPECT_EQ(count(text, "**short: fewer iterations t than at full scale**"), 1u);
  EXPECT_NOT_SAYS(text, "Not computed");

  // A number that is altered in the file is altered in the document.
  first.cells[0].measured[0].value += 1;
  ASSERT_TRUE(cache_results(first, out_));
  EXPECT_NE(make_document(out_).markdown, text);

  const auto file = cached_results_file(*first.experiment, Scale::kFull, out_);
  base::write_file(file, "{");
  fs::remove(cached_results_file(*first.experiment, Scale::kShort, out_));
  document = make_document(out_);
  ASSERT_EQ(document.complaints.size(), 1u);
  EXPECT_SAYS(document.complaints[0], "left out: " + file.string());
  EXPECT_NOT_SAYS(document.markdown, "## theorem1");
}

TEST_F(Runs, KeptTheoremsAloneAreADocument) {
  ASSERT_TRUE(cache_results(computed_theorem("theorem2"), out_));
  const auto text = make_document(out_).markdown;
  EXPECT_SAYS(text, "## theorem2");
  EXPECT_NOT_SAYS(text, "## Runs");
  const auto kept = read_cached_results(find_experiment("theorem2"), Scale::kFull, out_);
  ASSERT_TRUE(kept);
  EXPECT_SAYS(experiment_page(*kept, judge(*kept)), "<dd>stiefel paper theorem2</dd>");
  base::write_file(cached_results_file(*kept->experiment, Scale::kFull, out_), "{");
  try {
    make_document(out_);
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_SAYS(std::string(error.what()), "theorem2.json is damaged");
  }
}

TEST_F(Runs, ThePageHasTheTableTheClaimAndTheCurves) {
  write_eight();
  const auto results = collected("table1");
  const auto page = experiment_page(results, judge(results));
  for (const char* part :
       {"<h1>Table 1: classification errors", "<b>5.11</b><small>paper 5.88</small><small>-0.77</small>",
        "class=\"number empty\">–<small>paper 6.32</small>", "achieves the best error rate", "verdict open",
        "8 of 24 cells filled", "id=\"chart-loss\"", "id=\"report-data\"", "a &lt;card&gt; | b",
        "Where the numbers come from", "stiefel paper table1"})
    EXPECT_SAYS(page, part);
  EXPECT_NOT_SAYS(page, "a <card>");
  EXPECT_EQ(count(page, "2026-01-31</td></tr>"), 8u);
  EXPECT_NOT_SAYS(page, "class=\"scale-mark\"");
}

TEST_F(Runs, ThePageOfAFigureHoldsTheDrawingAndAShortOneIsMarked) {
  write_cell_run(out_, "figure1", "sgd,cifar10", 4, 1, Scale::kShort);
  write_cell_run(out_, "figure1", "cayley-sgd,cifar10", 4, 1, Scale::kShort);
  const auto results = collected("figure1", 1, Scale::kShort);
  const auto page = experiment_page(results, judge(results));
  EXPECT_SAYS(page, "<figure><svg xmlns");
  EXPECT_SAYS(page, "class=\"scale-mark\" role=\"note\">short: a tenth");
  EXPECT_EQ(count(page, "top two fastest"), 1u) << "the page says it, the drawing need not";
}

TEST_F(Runs, VerdictsLookDifferentAndAPageMayHaveNoRuns) {
  const auto& theorem = find_experiment("theorem1");
  Results results{&theorem, Scale::kFull, {}};
  for (const auto& cell : theorem.cells) {
    CellResult result{cell, 1, {}, true, ""};
    result.measured.push_back(
        {1, cell.printed[0].value, {{"commit", "abc"}, {"command", {"stiefel", "paper"}}}, {}});
    results.cells.push_back(result);
  }
  EXPECT_SAYS(experiment_page(results, judge(results)),
              "<span class=\"verdict borne-out\">✓ borne out</span>");
  results.cells[2].passes = false;
  const auto page = experiment_page(results, judge(results));
  EXPECT_SAYS(page, "<span class=\"verdict not-borne-out\">✗ not borne out</span>");
  EXPECT_SAYS(page, "✗ fails");
  EXPECT_SAYS(page, "<dd>stiefel paper</dd>");
  EXPECT_NOT_SAYS(page, "<script");
}

TEST(Charts, PointsWithoutALogarithmAreLeftOut) {
  Drawing drawing(600, {"a", "b"});
  drawing.plot({"x", "y", {{"b", {{1, 0}, {2, NAN}, {3, 1e-3}, {4, 1}, {5, INFINITY}}}, {"a", {{1, -1}}}}},
               {70, 10, 570, 210});
  const auto svg = drawing.finish(260);
  EXPECT_EQ(count(svg, "class=\"curve"), 1u);
  EXPECT_SAYS(svg, "class=\"curve c1\"");
  EXPECT_SAYS(svg, "M445.0 ");  // 70 + 500·3/4: the axis ends at the last point that is drawn
  EXPECT_NOT_SAYS(svg, "nan");
  EXPECT_NOT_SAYS(svg, "inf");
}

}  // namespace document_test
