#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "command.h"
#include "report/page.h"
#include "report/write.h"

namespace stiefel::app {

void add_report(CLI::App& app) {
  auto* command = app.add_subcommand("report", "one web page about one or more runs, to open in a browser");
  struct Options {
    std::vector<std::string> runs;
    std::string out = "report.html";
  };
  const auto options = std::make_shared<Options>();
  command->add_option("RUN", options->runs, "the runs' folders")->required();
  command->add_option("-o,--out", options->out, "file to write")->capture_default_str();
  command->callback([options] {
    std::vector<report::RunFolder> runs;
    for (const auto& folder : options->runs) runs.push_back(report::read_run_folder(folder));
    report::write_report(runs, options->out);
    fmt::print("{}\n", std::filesystem::absolute(options->out).string());
  });
}

}  // namespace stiefel::app
