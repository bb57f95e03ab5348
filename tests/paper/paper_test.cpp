#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "base/files.h"
#include "base/output_format.h"
#include "data/dataset.h"
#include "paper/jobs/cell_values.h"
#include "paper/jobs/plan.h"
#include "paper/jobs/results.h"
#include "paper/jobs/smoke_data.h"
#include "paper/publish/figure_svg.h"
#include "paper/publish/formats.h"
#include "paper/recipes.h"
#include "paper/registry.h"
#include "tests/data/data_support.h"
#include "tests/scratch.h"

// The declarations of the paper's tables and the parts of the engine; paper_command_test.py drives the whole.

namespace paper_test {

namespace fs = std::filesystem;
namespace base = stiefel::base;
namespace record = stiefel::record;
using namespace stiefel::paper;

// The tables' rows as the paper's source has them.
const char* const kTable1 = R"(SGD    & 5.88 & 6.32 & 6.49 & 6.23 & 4.96 & 3.89\\
ADAM    & 6.43 & 6.61 & 6.92 & 6.77 & 5.32 & 3.86 \\
Cayley SGD   & 5.90 & \bf{5.77} & 5.85 & 6.35 & 5.15 & 3.66\\
Cayley ADAM  & 5.93 & 5.88 & 6.03 & 6.44 & 5.22 & \bf{3.57}\\)";
const char* const kTable2 = R"(SGD    & 26.17 & 26.84 & 27.62 & 27.44 & 23.41 & 18.66\\
ADAM    & 26.58 & 27.10 & 27.88 & 27.89 & 24.45 & 18.45 \\
Cayley SGD   & {\bf 24.86} & 25.48 & 25.68 & 27.64 & 23.71 & 18.26\\
Cayley ADAM  & 25.10 & 25.61 & 25.70 & 27.91 & 24.18 & {\bf 18.10}\\)";
const char* const kTable3 = R"(\multirow{ 2}{*}{Baselines}&SGD & 3.89 & 18.66 & 102.5\\
&ADAM & 3.85 & 18.52 & 115.2\\
\multirow{ 3}{*}{Soft orthonormality}&SO \citep{bansal2018can}  & 3.76 & 18.56 & 297.3\\
&DSO \citep{bansal2018can} & 3.86 & 18.21 & 311.0\\
&SRIP \citep{bansal2018can} & 3.60 & 18.19 & 321.8\\
&OMDSM \citep{huang2018orthogonal} & 3.73 & 18.61 & 943.6\\
&DBN \citep{Huang_2018_CVPR} & 3.79 & 18.36 & 889.4\\
&Polar \citep{absil2009optimization} & 3.75 & 18.50 & 976.5\\
&QR \citep{absil2009optimization} & 3.75 & 18.65 & 469.3 \\
&Wen\&Yin \citep{wen2013feasible} & 3.82 & 18.70 & 305.8 \\
&Cayley closed form w/o momentum& 3.80 & 18.68 & 1071.5 \\
&Cayley SGD~({\bf Ours})& 3.66 & 18.26 & 218.7\\
&Cayley ADAM~({\bf Ours})& 3.57 & 18.10 & 224.4\\)";
const char* const kTable4 = R"(Full-uRNN & 116 & 92.8 & 2.10 && 92.6 & 1.42 && 92.7 & 1.50 \\
Full-uRNN & 512 & 96.9 & 2.44 && 96.7 & 1.67 && {\bf 96.9} & 1.74 \\)";
const char* const kTable5 = R"(n=116 & 3.231e-3 & 2.852e-4 & 7.384e-6 & 7.353e-6 & 7.338e-6 & 8.273e-5\\
n=512 & 6.787e-3 & 5.557e-4 & 2.562e-5 & 2.547e-5 & 2.544e-5 & 3.845e-5 \\)";

const Experiment& named(const char* name) { return find_experiment(name); }

/// The numbers of a table's fields, row after row; of the field before the first number nothing.
std::vector<double> numbers_in(const std::string& rows) {
  static const std::regex field(R"(&\s*(?:\\bf\{|\{\\bf\s*)?\s*([0-9][0-9.]*(?:e-[0-9]+)?)\s*\}?)");
  std::vector<double> numbers;
  for (auto at = std::sregex_iterator(rows.begin(), rows.end(), field); at != std::sregex_iterator(); ++at)
    numbers.push_back(std::stod((*at)[1]));
  return numbers;
}

std::vector<double> printed_in(const Experiment& experiment) {
  std::vector<double> numbers;
  for (const auto& cell : experiment.cells) numbers.push_back(cell.printed.at(0).value);
  return numbers;
}

TEST(Declarations, EveryPrintedNumberIsThere) {
  EXPECT_EQ(numbers_in(kTable1).size(), 24u);
  EXPECT_EQ(printed_in(named("table1")), numbers_in(kTable1));
  EXPECT_EQ(printed_in(named("table2")), numbers_in(kTable2));
  EXPECT_EQ(numbers_in(kTable3).size(), 39u);
  EXPECT_EQ(printed_in(named("table3")), numbers_in(kTable3));
  // Table 4's rows begin with the hidden size, a number too.
  auto four = numbers_in(kTable4);
  ASSERT_EQ(four.size(), 14u);
  EXPECT_EQ(four[7], 512);
  four.erase(four.begin() + 7);
  four.erase(four.begin());
  EXPECT_EQ(printed_in(named("table4")), four);
  // Table 5 is declared once for each of three forms; the released one has no closed form.
  const auto five = numbers_in(kTable5);
  ASSERT_EQ(five.size(), 12u);
  std::vector<double> expected;
  for (size_t size = 0; size < 2; ++size) {
    for (size_t form = 0; form < 3; ++form) {
      for (size_t s = 0; s < (form == 1 ? 5u : 6u); ++s) expected.push_back(five[6 * size + s]);
    }
  }
  EXPECT_EQ(printed_in(named("table5")), expected);
}

TEST(Declarations, BothPrintsOfAdamAreShown) {
  const auto& three = named("table3");
  for (const auto& [column, table] :
       std::map<std::string, std::string>{{"cifar10", "table1"}, {"cifar100", "table2"}}) {
    double elsewhere = 0;
    for (const auto& cell : find_experiment(table).cells) {
      if (cell.row == "adam" && cell.column == "wrn-28-10") elsewhere = cell.printed[0].value;
    }
    for (const auto& cell : three.cells) {
      if (cell.column != column) continue;
      ASSERT_EQ(cell.printed.size(), cell.row == "adam" ? 2u : 1u) << cell.row;
      if (cell.row == "adam") {
        EXPECT_EQ(cell.printed[1].value, elsewhere);
        EXPECT_NE(cell.printed[0].value, elsewhere);
      }
    }
  }
}

TEST(Declarations, AreComplete) {
  EXPECT_EQ(experiments().size(), 9u);
  for (const auto& experiment : experiments()) {
    EXPECT_FALSE(experiment.title.empty() || experiment.claim.empty() || experiment.test.empty());
    EXPECT_TRUE(experiment.judge) << experiment.name;
    std::set<std::pair<std::string, std::string>> places;
    for (const auto& cell : experiment.cells) {
      EXPECT_TRUE(places.emplace(cell.row, cell.column).second) << experiment.name << " " << cell.row;
      EXPECT_EQ(cell.recipe.has_value(), !experiment.compute);
      EXPECT_EQ(cell.read != nullptr, !experiment.compute);
      EXPECT_EQ(cell.row.find(','), std::string::npos) << "--only could not name it";
    }
  }
  EXPECT_EQ(all_methods().size(), 13u);
  EXPECT_EQ(rival_methods().size(), 9u);
  try {
    find_experiment("table6");
    FAIL();
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find("table5"), std::string::npos) << error.what();
  }
}

TEST(Declarations, RunsHaveOneNameEachAtEveryScale) {
  for (const auto& environment : {RunEnvironment{}, RunEnvironment{"cuda", "bf16", 0, ""}}) {
    for (const auto scale : scales()) {
      std::map<std::string, RunSpec> named;
      for (const auto& experiment : experiments()) {
        for (const auto& cell : experiment.cells) {
          if (!cell.recipe) continue;
          for (const int64_t seed : {1, 2}) {
            const auto spec = run_spec(*cell.recipe, scale, seed, environment);
            const auto [at, fresh] = named.emplace(spec.name, spec);
            if (fresh) continue;
            EXPECT_EQ(record::differences(at->second.config, spec.config), std::vector<std::string>{})
                << spec.name;
            EXPECT_EQ(at->second.unitariness.has_value(), spec.unitariness.has_value());
            if (spec.unitariness) {
              EXPECT_EQ(describe(*at->second.unitariness), describe(*spec.unitariness));
            }
          }
        }
      }
      // 24 + 24 of Tables 1 and 2, 18 more of Table 3, 6 of Table 4, 34 of Table 5, for each seed.
      if (scale != Scale::kSmoke) {
        EXPECT_EQ(named.size(), 2u * (24 + 24 + 18 + 6 + 34));
      }
    }
  }
}

TEST(Scales, ShortScalesTheScheduleAndSmokeStandsIn) {
  const auto recipe = image_recipe("so", "cifar10", "wrn-28-10");
  const auto full = run_spec(recipe, Scale::kFull, 1, {}).config;
  EXPECT_EQ(full.epochs, 200);
  EXPECT_EQ(full.drops, (std::vector<double>{60, 120, 160}));
  const auto less = run_spec(recipe, Scale::kShort, 1, {}).config;
  EXPECT_EQ(less.epochs, 20);
  EXPECT_EQ(less.drops, (std::vector<double>{6, 12, 16}));
  EXPECT_EQ(less.penalty_schedule, "2:0.00001,5:0.000001,7:0.00000001,12:0");
  EXPECT_EQ(less.model, "wrn-28-10");
  const auto smoke = run_spec(recipe, Scale::kSmoke, 1, {}).config;
  EXPECT_EQ(smoke.epochs, 1);
  EXPECT_EQ(smoke.model, "small");
  EXPECT_EQ(run_spec(pixel_recipe("cayley-adam", 512), Scale::kSmoke, 1, {}).config.model, "urnn-16");
  EXPECT_EQ(mark(Scale::kFull), "");
  EXPECT_NE(mark(Scale::kSmoke).find("stand-in"), std::string::npos);
  EXPECT_THROW(scale_from_string("tiny"), std::invalid_argument);
}

class Folder : public scratch::Test {
 protected:
  /// A run as another machine would have left it.
  /// The last epochs of a run, as many as losses.
  void write_run(const fs::path& folder, const record::Config& config, const std::string& status,
                 const std::vector<double>& losses = {1, 0.5}) {
    fs::create_directories(folder);
    const nlohmann::json facts{{"status", status},
                               {"device", "cpu"},
                               {"seed", config.seed},
                               {"commit", "abc"},
                               {"started", "2026-01-31T12:00:00Z"},
                               {"seconds", 10},
                               {"command", {"stiefel", "train"}},
                               {"hardware", {{"cpu", "some"}}},
                               {"versions", {{"libtorch", "9.9"}}}};
    base::write_file(folder / "run.json", facts.dump());
    base::write_file(folder / "config.toml", record::to_toml(config));
    std::vector<record::EpochMetrics> history;
    for (size_t i = 0; i < losses.size(); ++i) {
      record::EpochMetrics epoch;
      epoch.epoch = config.epochs + 1 + static_cast<int64_t>(i) - static_cast<int64_t>(losses.size());
      epoch.step = 390 * epoch.epoch;
      epoch.train_loss = losses[i];
      epoch.test_error = 7 - static_cast<double>(i);
      epoch.epoch_seconds = 5;
      epoch.seconds = 5 * static_cast<double>(i + 1);
      history.push_back(epoch);
    }
    record::write_metrics(folder, history);
  }
};

TEST_F(Folder, CopiedRunsCountWhereTheirRecipeMatches) {
  const auto cells = choose_cells(named("table1"), "cayley-sgd,vgg-13");
  ASSERT_EQ(cells.size(), 1u);
  const auto spec = run_spec(*cells[0].recipe, Scale::kFull, 1, {});
  auto elsewhere = spec.config;
  elsewhere.device = "cuda";
  elsewhere.precision = "bf16";
  elsewhere.step_precision = "full";
  elsewhere.threads = 7;
  elsewhere.data_dir = "/somewhere/else";
  elsewhere.checkpoint_every = 50;
  elsewhere.tensorboard = true;
  elsewhere.graph = "off";
  EXPECT_EQ(differences_that_matter(elsewhere, spec.config), std::vector<std::string>{});
  auto other = elsewhere;
  other.lr = 0.3;
  EXPECT_EQ(differences_that_matter(other, spec.config), std::vector<std::string>{"lr"});

  write_run(folder_ / "full" / "other-rate", other, "finished");
  EXPECT_EQ(make_plan(cells, 1, Scale::kFull, {}, folder_)[0].state, Job::State::kMissing);
  write_run(folder_ / "full" / "half-way", elsewhere, "running");  // and no checkpoint to go on from
  EXPECT_EQ(make_plan(cells, 1, Scale::kFull, {}, folder_)[0].state, Job::State::kMissing);
  write_run(folder_ / "full" / "from the other machine", elsewhere, "finished");
  fs::create_directories(folder_ / "full" / "data");
  base::write_file(folder_ / "full" / "letter.txt", "dear");
  RunEnvironment like_there;
  like_there.device = "cpu";
  auto jobs = make_plan(cells, 2, Scale::kFull, like_there, folder_);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].state, Job::State::kDone);
  EXPECT_EQ(jobs[0].folder.filename(), "from the other machine");
  EXPECT_EQ(jobs[1].state, Job::State::kMissing) << "the second seed";
  ASSERT_TRUE(jobs[1].seconds) << "from the finished runs of vgg-13";
  EXPECT_DOUBLE_EQ(*jobs[1].seconds, 200 * 5);
  EXPECT_NE(to_string(time_left(jobs, 2)).find("16 min 40 s"), std::string::npos)
      << "one run, whoever runs it";
  jobs = make_plan(cells, 4, Scale::kFull, like_there, folder_);
  EXPECT_DOUBLE_EQ(time_left(jobs, 1).seconds, 3 * 200 * 5);
  EXPECT_DOUBLE_EQ(time_left(jobs, 2).seconds, 1.5 * 200 * 5);
  EXPECT_DOUBLE_EQ(time_left(jobs, 8).seconds, 200 * 5);

  const auto results = collect_results(named("table1"), cells, 2, Scale::kFull, {}, folder_);
  ASSERT_EQ(results.cells[0].measured.size(), 1u);
  EXPECT_DOUBLE_EQ(results.cells[0].measured[0].value, 6);
  EXPECT_NEAR(*results.cells[0].difference(), 6 - 5.90, 1e-12);
  const auto& origin = results.cells[0].measured[0].origin;
  EXPECT_EQ(origin["commit"], "abc");
  EXPECT_EQ(origin["libtorch"], "9.9");
  EXPECT_EQ(origin["date"], "2026-01-31T12:00:00Z");
  EXPECT_EQ(origin["command"][1], "train");

  base::write_file(folder_ / "full" / "from the other machine" / "run.json", "{\"status\": ");
  EXPECT_EQ(RunStore(folder_, Scale::kFull).complaints().size(), 1u);
}

TEST_F(Folder, AFinishedRunHasAllItsEpochs) {
  auto config = run_spec(pixel_recipe("cayley-sgd", 116), Scale::kFull, 1, {}).config;
  const auto finished = [&](int64_t patience, int64_t epochs) {
    auto changed = config;
    changed.patience = patience;
    write_run(folder_ / "run", changed, "finished", {3, 2, 1});  // better in each
    changed.epochs = epochs;
    base::write_file(folder_ / "run" / "config.toml", record::to_toml(changed));
    return read_run_record(folder_ / "run")->finished();
  };
  EXPECT_TRUE(finished(0, config.epochs));
  EXPECT_THROW(finished(0, config.epochs + 1), std::runtime_error);
  EXPECT_THROW(finished(2, config.epochs + 1), std::runtime_error) << "the last epoch was the best";
  // Stopped early: nothing bettered the first of the three.
  config.patience = 2;
  write_run(folder_ / "run", config, "finished", {1, 1, 1});
  auto lines = base::read_file(folder_ / "run" / "metrics.jsonl");
  for (const char* error : {"6.0", "5.0"})
    lines.replace(lines.find("\"test_error\":" + std::string(error)), 16, "\"test_error\":8.0");
  base::write_file(folder_ / "run" / "metrics.jsonl", lines);
  config.epochs += 10;
  base::write_file(folder_ / "run" / "config.toml", record::to_toml(config));
  EXPECT_TRUE(read_run_record(folder_ / "run")->finished());
}

TEST_F(Folder, CellValuesAreTheStatedOnes) {
  auto config = run_spec(pixel_recipe("cayley-sgd", 116), Scale::kFull, 1, {}).config;
  write_run(folder_ / "run", config, "finished", {3, 2, 1});
  auto run = *read_run_record(folder_ / "run");
  EXPECT_DOUBLE_EQ(last_test_error(run), 5);
  EXPECT_DOUBLE_EQ(last_train_loss(run), 1);
  EXPECT_DOUBLE_EQ(epoch_seconds(run), 5);
  EXPECT_DOUBLE_EQ(iteration_seconds(run), 5.0 / 390);
  run.epochs[0].validation_error = 4;
  run.epochs[1].validation_error = 3;
  run.epochs[2].validation_error = 6;
  EXPECT_DOUBLE_EQ(accuracy_by_validation(run), 94) << "the test error at the epoch that validation chose";
  EXPECT_TRUE(std::isnan(mean_defect(run)));
  EXPECT_FALSE(read_run_record(folder_).has_value());
}

/// Results of Table 1 with the same error in every cell but one.
Results with_errors(double all, double wrn_28_10_cayley_adam) {
  Results results{&named("table1"), Scale::kFull, {}};
  for (const auto& cell : results.experiment->cells) {
    CellResult result{cell, 1, {}, {}, {}};
    const bool best = cell.row == "cayley-adam" && cell.column == "wrn-28-10";
    result.measured.push_back({1, best ? wrn_28_10_cayley_adam : all, {}, {}});
    results.cells.push_back(result);
  }
  return results;
}

TEST(Verdicts, FollowTheStatedTest) {
  EXPECT_EQ(judge(with_errors(5, 4)).kind, Verdict::Kind::kBorneOut);
  EXPECT_EQ(judge(with_errors(5, 6)).kind, Verdict::Kind::kNotBorneOut);
  auto results = with_errors(5, 4);
  results.cells.back().measured.clear();
  EXPECT_EQ(judge(results).kind, Verdict::Kind::kOpen);
  results = with_errors(5, 4);
  results.scale = Scale::kSmoke;
  EXPECT_EQ(judge(results).kind, Verdict::Kind::kOpen) << "a stand-in bears nothing out";
}

TEST(Formats, ShowOursThePapersAndTheDifference) {
  auto results = with_errors(5, 4);
  results.scale = Scale::kShort;
  results.cells[0].measured = {{1, 5, {}, {}}, {2, 6, {}, {}}};
  results.cells[0].wanted = 3;
  results.cells[1].measured.clear();
  const auto verdict = judge(results);
  for (const auto& format : base::output_formats()) {
    const auto text = format_results(results, verdict, format);
    EXPECT_NE(text.find("short: a tenth"), std::string::npos) << format << " must say that it is short";
  }
  const auto table = format_results(results, verdict, "table");
  EXPECT_NE(table.find("5.50 ± 0.71 (2 of 3)"), std::string::npos) << table;
  EXPECT_NE(table.find("-0.38"), std::string::npos) << table;  // 5.50 − 5.88
  const auto json = nlohmann::json::parse(format_results(results, verdict, "json"));
  EXPECT_TRUE(json["cells"][1]["mean"].is_null());
  EXPECT_TRUE(json["cells"][1]["runs"].empty());
  EXPECT_EQ(json["cells"][1]["paper"][0]["value"], 6.32);
  EXPECT_EQ(json["cells"][0]["epochs"], 20);
  EXPECT_EQ(json["cells"][0]["paper_epochs"], 200);
  std::istringstream lines(format_results(results, verdict, "csv"));
  std::string line;
  std::getline(lines, line);
  const auto commas = std::count(line.begin(), line.end(), ',');
  std::getline(lines, line);
  std::getline(lines, line);
  EXPECT_EQ(line.rfind("sgd,vgg-16,0,,,6.32,", 0), 0u) << line;
  EXPECT_EQ(std::count(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(line.find('"')), ','), commas)
      << line;
}

TEST(Figures, AreDrawnWithTheirClaim) {
  const auto& figure = named("figure2");
  Results results{&figure, Scale::kSmoke, {}};
  for (const auto& cell : figure.cells) {
    CellResult result{cell, 1, {}, {}, {}};
    record::EpochMetrics epoch;
    Measured one{1, 0.5, {}, {}};
    for (int64_t i = 1; i <= 20; ++i) {
      epoch.epoch = i;
      epoch.seconds = 7 * static_cast<double>(i);
      epoch.train_loss = i == 5 ? NAN : 2.0 / static_cast<double>(i * i);
      one.history.push_back(epoch);
    }
    if (cell.column == "cifar10") result.measured.push_back(one);
    results.cells.push_back(result);
  }
  const auto svg = draw_panel(results, {}, "cifar10");
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  for (const char* part :
       {"training time, s", "training loss", "catch", "stand-in", "cayley-adam", "</svg>"}) {
    EXPECT_NE(svg.find(part), std::string::npos) << part;
  }
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(draw_panel(results, {}, "cifar100"), "");
}

TEST(Only, NamesCellsAndListsThemOtherwise) {
  const auto& table = named("table1");
  EXPECT_EQ(choose_cells(table, "").size(), 24u);
  EXPECT_EQ(choose_cells(table, "sgd,").size(), 6u);
  EXPECT_EQ(choose_cells(table, ",vgg-16").size(), 4u);
  for (const auto& [only, part] :
       std::map<std::string, std::string>{{"sdg,", "cayley-adam"}, {",vgg-11", "wrn-28-10"}}) {
    try {
      choose_cells(table, only);
      FAIL() << only;
    } catch (const std::invalid_argument& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  }
}

TEST_F(Folder, SmokeDataIsTheBeginningOfTheSet) {
  const auto source = folder_ / "whole" / "cifar-10-batches-bin";
  fs::create_directories(source);
  std::string record(3073, '\0');
  for (const auto& file : stiefel::data::facts_of("cifar10").files) {
    std::string bytes;
    for (int i = 0; i < 600; ++i) {
      record[0] = static_cast<char>(i % 10);
      record[5] = static_cast<char>(i % 251);
      bytes += record;
    }
    base::write_file(source / file.name, bytes);
  }
  provide_smoke_data("cifar10", folder_ / "whole", folder_ / "little");
  const auto whole = stiefel::data::load("cifar10", folder_ / "whole");
  const auto little = stiefel::data::load("cifar10", folder_ / "little");
  EXPECT_EQ(little.train.labels.size(0), 5 * 409);
  EXPECT_EQ(little.test.labels.size(0), 512);
  EXPECT_TRUE(little.test.pixels.equal(whole.test.pixels.slice(0, 0, 512)));
  EXPECT_TRUE(little.train.labels.slice(0, 409, 818).equal(whole.train.labels.slice(0, 600, 1009)));
}

TEST_F(Folder, SmokeDataOfAHeaderThatLiesIsAnErrorBeforeMemoryIsTaken) {
  support::write_set("mnist", folder_ / "mnist", 4);
  auto bytes = support::idx_images(4);
  bytes.replace(8, 4, support::big_endian(int64_t{1} << 31));
  bytes.replace(12, 4, support::big_endian(int64_t{1} << 31));
  support::write(folder_ / "mnist" / "train-images-idx3-ubyte", bytes);
  EXPECT_MESSAGE(provide_smoke_data("mnist", folder_, folder_ / "little"),
                 "train-images-idx3-ubyte: byte 8: expected 28 pixels, found 2147483648");
}

TEST_F(Folder, HalfASetInANamedFolderIsNotReplacedByAnother) {
  const auto recipe = image_recipe("so", "cifar10", "wrn-28-10");
  RunEnvironment here;
  here.data_dir = folder_.string();
  support::write_set("mnist", folder_ / "mnist", 4);
  EXPECT_EQ(run_spec(recipe, Scale::kSmoke, 1, here).config.data, "mnist");  // it stands in
  support::write_set("cifar10", folder_ / "cifar10", 4);
  EXPECT_EQ(run_spec(recipe, Scale::kSmoke, 1, here).config.data, "cifar10");
  fs::remove(folder_ / "cifar10" / "test_batch.bin");
  EXPECT_EQ(run_spec(recipe, Scale::kSmoke, 1, here).config.data, "cifar10");
}

TEST(Theorems, TheFirstIsBorneOut) {
  const auto& theorem = named("theorem1");
  Results results{&theorem, Scale::kFull, {}};
  for (const auto& cell : theorem.cells) results.cells.push_back({cell, 2, {}, {}, {}});
  theorem.compute(results, 2, [](const std::string&) {});
  EXPECT_EQ(judge(results).kind, Verdict::Kind::kBorneOut);
  EXPECT_NEAR(*results.mean("s=3", "complex"), 5, 0.1);
  EXPECT_EQ(mark_of(results), "");
}

}  // namespace paper_test
