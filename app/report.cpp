#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/printable.h"
#include "base/table.h"
#include "command.h"
#include "report/page.h"
#include "report/summary.h"

namespace stiefel::app {

namespace {

std::string number(double value, const char* format) {
  return std::isnan(value) ? "–" : fmt::format(fmt::runtime(format), value);
}

// Pixels from 0 to 1; what published certificates for images are compared at.
constexpr double kRadius = 36.0 / 255;

/// The page's comparison, for the terminal.
void print_table(const std::vector<report::RunFolder>& runs) {
  const auto names = report::labels(runs);
  size_t by_validation = 0;
  const bool any_certified =
      std::any_of(runs.begin(), runs.end(), [](const auto& run) { return !run.certified.empty(); });
  std::vector<std::string> columns{"run",        "test error %", "best error %",
                                   "train loss", "s / epoch",    "defect"};
  if (any_certified) columns.emplace_back("certified at 36/255 %");
  base::Table table(columns, "lr");
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto s = report::summarize(runs[i]);
    std::vector<std::string> row{base::printable(names[i]),           number(s.last_test_error, "{:.2f}"),
                                 number(s.best_test_error, "{:.2f}"), number(s.last_train_loss, "{:.4f}"),
                                 number(s.epoch_seconds, "{:.1f}"),   number(s.defect_max, "{:.1e}")};
    if (any_certified) {
      const auto& images = runs[i].certified;
      row.push_back(images.empty() ? "–"
                                   : fmt::format("{:.2f}", record::certified_accuracy(images, kRadius)));
    }
    table.add(row);
    by_validation += s.validation_decides ? 1 : 0;
  }
  fmt::print("{}", table.text());
  fmt::print("best error: the test error at the epoch that {}\n",
             by_validation == runs.size() ? "validation chose"
             : by_validation == 0         ? "has the lowest"
                                          : "validation chose; the lowest of a run without validation");
}

}  // namespace

void add_report(CLI::App& app) {
  auto* command = app.add_subcommand("report", "one web page about one or more runs, to open in a browser");
  struct Options {
    std::vector<std::string> runs;
    std::string out = "report.html";
  };
  const auto options = std::make_shared<Options>();
  command->add_option("RUN", options->runs, "the runs' folders, or files of `stiefel export --format run`")
      ->required();
  command->add_option("-o,--out", options->out, "file to write")->capture_default_str();
  command->callback([options] {
    std::vector<report::RunFolder> runs;
    for (const auto& folder : options->runs) runs.push_back(report::read_run_folder(folder));
    base::write_file(options->out, report::render(runs));
    print_table(runs);
    fmt::print("\nopen in a browser: {}\n", base::printable(std::filesystem::absolute(options->out)));
  });
}

}  // namespace stiefel::app
