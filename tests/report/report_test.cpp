#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>
#include <functional>
#include <iterator>

#include "base/escape.h"
#include "base/files.h"
#include "record/certified_images.h"
#include "report/assets.h"
#include "report/page.h"
#include "report/run_folder.h"
#include "report/settings.h"
#include "report/summary.h"
#include "report_samples.h"
#include "tests/scratch.h"

// The report page: what it reads, what it says, what it survives.

namespace report_test {

namespace fs = std::filesystem;
using samples::Sample;
using stiefel::report::read_run_folder;
using stiefel::report::render;
using stiefel::report::RunFolder;

std::string message_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "(no error)";
}

std::string read_error(const fs::path& folder) {
  return message_of([&] { read_run_folder(folder); });
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++found;
  return found;
}

std::string slurp(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// A whole page is too much for a failure's message.
testing::AssertionResult says(const std::string& text, const std::string& part) {
  if (contains(text, part)) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in '" << text.substr(0, 300)
                                     << (text.size() > 300 ? "…" : "") << "'";
}

#define EXPECT_SAYS(text, part) EXPECT_TRUE(says(text, part))

class Report : public scratch::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_ / name; }

  RunFolder run(const std::string& name, const Sample& sample = {}) const {
    return read_run_folder(samples::write_run(path(name), sample));
  }
};

TEST_F(Report, ReadsAFolder) {
  const auto read = run("a");
  EXPECT_EQ(read.name, "cayley-sgd");
  EXPECT_EQ(read.status, "finished");
  EXPECT_EQ(read.seed, "1");
  EXPECT_EQ(read.cpu, "A processor @ 2.10GHz");
  EXPECT_EQ(read.cores, 2);
  EXPECT_EQ(read.command.size(), 10U);
  EXPECT_EQ(read.versions.size(), 4U);
  ASSERT_EQ(read.epochs.size(), 20U);
  EXPECT_EQ(read.epochs[2].epoch, 3);
  EXPECT_EQ(read.epochs[2].step, 3 * 468);
  EXPECT_NEAR(read.epochs[0].rate_manifold.value(), 0.2, 1e-12);
  EXPECT_TRUE(read.warnings.empty());
}

TEST_F(Report, AContinuedRunNamesTheCommitsOfItsParts) {
  run("continued");
  auto text = stiefel::base::read_file(path("continued/run.json"));
  text.insert(1, R"("earlier":[{"commit":"89ab"},{"commit":"89ab"},{},3],)");
  samples::write(path("continued/run.json"), text);
  EXPECT_EQ(read_run_folder(path("continued")).commit, "89ab, then 0123abc");
}

TEST_F(Report, MissingAndNullValuesAreMissing) {
  const auto sgd = run("sgd", {"sgd", "sgd"});
  EXPECT_TRUE(std::isnan(sgd.epochs[0].defect_max.value()));
  samples::write(path("bare/run.json"), "{}");
  samples::write(path("bare/metrics.jsonl"),
                 "{\"train_loss\":null,\"epoch_seconds\":2}\n\n{\"epoch_seconds\":3}");
  const auto bare = read_run_folder(path("bare/"));
  EXPECT_EQ(bare.name, "bare");
  ASSERT_EQ(bare.epochs.size(), 2U);
  EXPECT_TRUE(std::isnan(bare.epochs[0].train_loss));
  EXPECT_EQ(bare.epochs[1].epoch, 2);
  EXPECT_EQ(bare.epochs[1].seconds, 5);  // summed up from the epochs'
  EXPECT_EQ(bare.warnings.size(), 1U);   // no config.toml
  EXPECT_SAYS(render({bare}), "no config.toml");
}

TEST_F(Report, WhatIsNotARunFolderIsNamed) {
  EXPECT_SAYS(read_error(path("nowhere")), "nowhere: no such folder");
  samples::write(path("file"), "x");
  EXPECT_SAYS(read_error(path("file")), "not a folder");
  fs::create_directories(path("empty"));
  EXPECT_SAYS(read_error(path("empty")), "not a run folder (it has no run.json)");
}

TEST_F(Report, DamagedFilesAreNamedWithTheirLine) {
  run("a");
  const auto facts = slurp(path("a/run.json"));
  samples::write(path("a/run.json"), "{\n\"name\": \"a\",\n oops\n}");
  EXPECT_SAYS(read_error(path("a")), "run.json: line 3: broken JSON");
  samples::write(path("a/run.json"), "[1]");
  EXPECT_SAYS(read_error(path("a")), "run.json: line 1: expected a JSON object");
  samples::write(path("a/run.json"), facts);
  samples::write(path("a/metrics.jsonl"), "{\"epoch\":1}\n{\"epoch\":2,\n{\"epoch\":3}\n");
  EXPECT_SAYS(read_error(path("a")), "metrics.jsonl: line 2: broken JSON at column");
  samples::write(path("a/metrics.jsonl"), "{\"epoch\":1}\n{\"epoch\":2,\"test_error\":\"low\"}\n");
  EXPECT_SAYS(read_error(path("a")), "line 2: \"test_error\" must be a number or null, found \"low\"");
  samples::write(path("a/metrics.jsonl"), "7\n");
  EXPECT_SAYS(read_error(path("a")), "line 1: expected a JSON object");
}

TEST_F(Report, WhatAParserCannotTakeIsNamedWithItsLine) {
  run("a");
  const auto facts = slurp(path("a/run.json"));
  const std::string deep = std::string(100000, '[') + std::string(100000, ']');
  samples::write(path("a/run.json"), "{\n\"seed\":" + deep + "}");
  EXPECT_SAYS(read_error(path("a")), "run.json: line 2: nested more than 100 deep; restore the file");
  samples::write(path("a/run.json"), "{\n\"seconds\": 1e999}");
  EXPECT_SAYS(read_error(path("a")), "run.json: line 2: the number 1e999 is too large; restore the file");
  samples::write(path("a/run.json"), facts);
  samples::write(path("a/metrics.jsonl"), "{\"epoch\":1}\n{\"epoch\":2,\"test_error\":" + deep + "}\n");
  EXPECT_SAYS(read_error(path("a")), "metrics.jsonl: line 2: nested more than 100 deep");
  samples::write(path("a/metrics.jsonl"), "{\"epoch\":1}\n{\"epoch\":2,\"test_error\":1e999}\n");
  EXPECT_SAYS(read_error(path("a")), "metrics.jsonl: line 2: the number 1e999 is too large");
  EXPECT_SAYS(read_error(path("a")), "mend or delete it");
}

TEST_F(Report, WhatIsNoRegularFileIsRefusedAtOnce) {
  for (const std::string name : {"run.json", "config.toml", "metrics.jsonl"}) {
    const auto folder = "of-" + name;
    run(folder);
    fs::remove(path(folder) / name);
    ASSERT_EQ(mkfifo((path(folder) / name).c_str(), 0600), 0);
    EXPECT_SAYS(read_error(path(folder)), name + ": is a fifo, where a regular file should be");
  }
}

TEST_F(Report, NoEpochYet) {
  run("a");
  samples::write(path("a/metrics.jsonl"), "");
  EXPECT_SAYS(read_error(path("a")), "no epoch is finished yet");
  fs::remove(path("a/metrics.jsonl"));
  EXPECT_SAYS(read_error(path("a")), "no epoch is finished yet");
  samples::write(path("a/metrics.jsonl"), "{\"epoch\":1,\"tr");
  EXPECT_SAYS(read_error(path("a")), "no epoch is finished yet");
}

TEST_F(Report, ALastLineCutShortIsLeftOutAndSaid) {
  run("a");
  const auto whole = slurp(path("a/metrics.jsonl"));
  samples::write(path("a/metrics.jsonl"), whole.substr(0, whole.size() - 40));
  const auto read = read_run_folder(path("a"));
  EXPECT_EQ(read.epochs.size(), 19U);
  ASSERT_EQ(read.warnings.size(), 1U);
  EXPECT_SAYS(read.warnings[0], "line 20 was cut short");
  EXPECT_SAYS(render({read}), "line 20 was cut short");
}

TEST_F(Report, AResumedRunsLaterLinesCount) {
  run("a");
  samples::write(
      path("a/metrics.jsonl"),
      "{\"epoch\":1,\"train_loss\":4}\n{\"epoch\":2,\"train_loss\":3}\n{\"epoch\":3,\"train_loss\":9}\n"
      "{\"epoch\":2,\"train_loss\":2}\n{\"epoch\":3,\"train_loss\":1}\n");
  const auto read = read_run_folder(path("a"));
  ASSERT_EQ(read.epochs.size(), 3U);
  EXPECT_EQ(read.epochs[1].train_loss, 2);
  EXPECT_EQ(read.epochs[2].train_loss, 1);
  EXPECT_EQ(read.warnings.size(), 1U);
}

TEST_F(Report, SettingsOfOtherVersionsAreShown) {
  run("a");
  samples::write(path("a/config.toml"), "optim = \"sgd\"\n[new]\nknob = [1, 2]  # of a later version\n");
  const auto read = read_run_folder(path("a"));
  using Pairs = std::vector<stiefel::report::Pair>;
  EXPECT_EQ(read.settings, (Pairs{{"optim", "sgd"}, {"new.knob", "[1, 2]"}}));
  EXPECT_SAYS(render({read}), "new.knob");
}

TEST_F(Report, OnlyWhatDiffersIsInTheTableOfSettings) {
  const auto page = render({run("a"), run("b", {"sgd", "sgd"})});
  const auto begin = page.find("<table class=\"settings\">");
  ASSERT_NE(begin, std::string::npos);
  const auto table = page.substr(begin, page.find("</table>", begin) - begin);
  EXPECT_SAYS(table, ">optim</th>");
  EXPECT_SAYS(table, ">lr-manifold</th>");
  EXPECT_SAYS(table, "class=\"absent\">–");
  EXPECT_FALSE(contains(table, ">momentum</th>"));
  EXPECT_SAYS(page, "All else equal: 12 settings");
  EXPECT_SAYS(render({run("a"), run("c")}), "The runs have the same settings.");
}

TEST_F(Report, SummaryAndBest) {
  const auto a = run("a", {"a", "cayley-sgd", "fashion-mnist", "finished", 10, 8});
  const auto b = run("b", {"b", "sgd", "fashion-mnist", "finished", 10, 9});
  const auto other = run("c", {"c", "sgd", "mnist", "finished", 10, 0.5});
  const auto summary = stiefel::report::summarize(a);
  EXPECT_EQ(summary.epochs, 10);
  EXPECT_LE(summary.best_test_error, summary.last_test_error);
  EXPECT_NEAR(summary.epoch_seconds, 7, 0.05);
  EXPECT_EQ(summary.total_seconds, 73);
  EXPECT_TRUE(std::isnan(stiefel::report::summarize(b).defect_max));
  using stiefel::report::mark_best;
  const double none = stiefel::report::kMissing;
  const std::vector<bool> yes(3, true);
  EXPECT_EQ(mark_best({a, b, a}, {1, 2, 1}, yes), (std::vector<bool>{true, false, true}));
  EXPECT_EQ(mark_best({a, b, other}, {2, 1, 0}, yes), (std::vector<bool>{false, true, false}));
  EXPECT_EQ(mark_best({a, b, a}, {1, 1, 1}, yes), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(mark_best({a, b, a}, {1, none, none}, yes), (std::vector<bool>{false, false, false}));
  EXPECT_EQ(mark_best({a, b, a}, {1, 2, 3}, {false, true, true}), (std::vector<bool>{false, true, false}));
}

TEST_F(Report, TheLastErrorOfARunThatDivergedIsNotAnEarlierOne) {
  run("a");
  samples::write(path("a/metrics.jsonl"),
                 "{\"epoch\":1,\"test_error\":12,\"train_loss\":2}\n{\"epoch\":2,\"test_error\":null,\"train_"
                 "loss\":null}\n");
  const auto read = read_run_folder(path("a"));
  EXPECT_TRUE(std::isnan(stiefel::report::summarize(read).last_test_error));
  EXPECT_EQ(stiefel::report::summarize(read).best_test_error, 12);
  EXPECT_SAYS(render({read}), "1 run on Fashion-MNIST");
}

/// A run whose metrics are these lines and whose config these settings.
RunFolder with(const RunFolder& base, const std::vector<stiefel::report::Epoch>& epochs,
               const std::vector<stiefel::report::Pair>& settings = {}) {
  auto run = base;
  run.epochs = epochs;
  run.settings = settings;
  return run;
}

TEST_F(Report, TheBestEpochIsTheOneThatValidationChose) {
  run("a");
  samples::write(path("a/metrics.jsonl"),
                 "{\"epoch\":1,\"validation_error\":9,\"test_error\":8,\"train_loss\":2}\n"
                 "{\"epoch\":2,\"validation_error\":7,\"test_error\":8.5,\"train_loss\":2}\n"
                 "{\"epoch\":3,\"validation_error\":7,\"test_error\":7.25,\"train_loss\":2}\n"
                 "{\"epoch\":4,\"validation_error\":null,\"test_error\":11,\"train_loss\":2}\n");
  const auto chosen = read_run_folder(path("a"));
  const auto summary = stiefel::report::summarize(chosen);
  EXPECT_TRUE(summary.validation_decides);
  EXPECT_EQ(summary.best_epoch, 2);  // the first of equals, as the trainer's checkpoint
  EXPECT_EQ(summary.best_test_error, 8.5);
  EXPECT_EQ(summary.last_test_error, 11);
  const auto page = render({chosen});
  EXPECT_SAYS(page, "<b>8.50 %</b><span>at epoch 2, the best by validation</span>");
  EXPECT_SAYS(page, "8.50 %<small>epoch 2, by validation</small>");
  // Without validation it is the lowest, and is called that.
  auto epochs = chosen.epochs;
  for (auto& epoch : epochs) epoch.validation_error.reset();
  const auto lowest = with(chosen, epochs);
  EXPECT_FALSE(stiefel::report::summarize(lowest).validation_decides);
  EXPECT_EQ(stiefel::report::summarize(lowest).best_epoch, 3);
  EXPECT_SAYS(render({lowest}), "<b>7.25 %</b><span>the lowest, at epoch 3</span>");
  // One that the test set chose and one that validation chose are not compared.
  const auto mixed = render({chosen, lowest});
  EXPECT_FALSE(contains(mixed, "best: </span>7.25 %"));
  EXPECT_SAYS(render({lowest, with(lowest, {epochs[0], epochs[1]})}), "best: </span>7.25 %");
}

TEST_F(Report, ARateIsDrawnAlongTheEpochThatItWasUsedIn) {
  std::vector<stiefel::report::Epoch> epochs(4);
  for (size_t i = 0; i < epochs.size(); ++i) {
    epochs[i].epoch = static_cast<int64_t>(i + 1);
    epochs[i].seconds = 10 * static_cast<double>(i + 1);
    epochs[i].epoch_seconds = 10;
    epochs[i].test_error = 5;
    epochs[i].rate_euclidean = i < 2 ? 0.1 : 0.02;  // dropped after two epochs
  }
  const auto page = render({with(run("a"), epochs)});
  const auto chart = page.substr(page.find("id=\"chart-rates\""));
  // From x = 0 to 4 the plot has 570 pixels less 3 % of room: an epoch begins where the one before it ends.
  const double left = 58, width = 570, room = 0.015;
  const auto at = [&](double epoch) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", left + width * (epoch / 4 + room) / (1 + 2 * room));
    return std::string(text);
  };
  for (const auto* axis : {"by-epoch", "by-seconds"}) {
    const auto svg = chart.substr(chart.find(axis));
    const auto path = svg.substr(svg.find("d=\"M", svg.find("data-run")) + 3);
    const auto line = path.substr(0, path.find('"'));
    const auto space = line.find(' ');
    EXPECT_EQ(line.substr(0, space), "M" + at(0)) << line;
    const auto drop = line.find('V', line.find('V') + 1);
    ASSERT_NE(drop, std::string::npos) << line;
    EXPECT_EQ(line.substr(line.rfind('H', drop), drop - line.rfind('H', drop)), "H" + at(2)) << line;
    EXPECT_EQ(line.substr(line.rfind('H')), "H" + at(4)) << line;
  }
}

TEST_F(Report, SettingsWithoutEffectAreNoDifferences) {
  const auto base = run("a");
  using Pairs = std::vector<stiefel::report::Pair>;
  const auto of = [&](const std::string& optim, const Pairs& more) {
    Pairs settings{{"optim", optim}, {"rest", "sgd"}, {"schedule", "multi-step"}, {"penalty", "none"}};
    settings.insert(settings.end(), more.begin(), more.end());
    return with(base, base.epochs, settings);
  };
  const auto differences = [](const std::vector<RunFolder>& runs) {
    std::string keys;
    for (const auto& setting : stiefel::report::gather_settings(runs)) {
      if (setting.differs()) keys += setting.key + " ";
    }
    return keys;
  };
  EXPECT_EQ(differences({of("sgd", {{"beta2", "0.999"}, {"step-precision", "full"}}),
                         of("cayley-sgd", {{"beta2", "0.99"}, {"step-precision", "mixed"}})}),
            "optim ");
  EXPECT_EQ(differences({of("sgd", {{"beta2", "0.999"}}), of("cayley-adam", {{"beta2", "0.99"}})}), "optim ");
  EXPECT_EQ(differences({of("adam", {{"beta2", "0.999"}}), of("cayley-adam", {{"beta2", "0.99"}})}),
            "optim beta2 ");
  // Also with a third run on which it has none.
  EXPECT_EQ(differences({of("sgd", {{"beta2", "0.9"}}), of("adam", {{"beta2", "0.999"}}),
                         of("cayley-adam", {{"beta2", "0.99"}})}),
            "optim beta2 ");
  EXPECT_EQ(differences({of("sgd", {{"q", "0.5"}, {"srip-rounds", "2"}, {"group-size", "0"}}),
                         of("sgd", {{"q", "0.9"}, {"srip-rounds", "3"}, {"group-size", "0"}})}),
            "");
  EXPECT_EQ(differences({of("qr", {{"momentum", "0.9"}, {"q", "0.5"}, {"rms-scaled", "false"}}),
                         of("qr", {{"momentum", "0.5"}, {"q", "0.9"}, {"rms-scaled", "true"}})}),
            "momentum rms-scaled ");
  // An optimiser that is not in the table may take every option.
  EXPECT_EQ(differences({of("later", {{"q", "0.5"}, {"beta2", "0.9"}}),
                         of("later", {{"q", "0.9"}, {"beta2", "0.99"}})}),
            "q beta2 ");
}

TEST_F(Report, OneSeedOfEachMethodIsNoVerdict) {
  const auto a = run("a", {"a", "cayley-sgd", "fashion-mnist", "finished", 10, 8});
  const auto b = run("b", {"b", "sgd", "fashion-mnist", "finished", 10, 9});
  const auto again = run("c", {"c", "sgd", "fashion-mnist", "finished", 10, 9.5, 7, 2});
  const auto once = render({a, b});
  EXPECT_SAYS(once, "one seed of each method: no verdict on the methods");
  EXPECT_SAYS(once, "one seed of each method, so no verdict on them");
  const auto seeds = render({a, b, again});
  EXPECT_FALSE(contains(seeds, "no verdict"));
  const double spread = std::abs(again.epochs.back().test_error - b.epochs.back().test_error);
  char text[64];
  std::snprintf(text, sizeof text, "seeds of one method differ by up to %.2f points", spread);
  EXPECT_SAYS(seeds, text);
  // The same run twice is not two seeds.
  EXPECT_SAYS(render({a, b, b}), "no verdict");
  // A single run is a statement about itself.
  EXPECT_SAYS(render({a}), "<span class=\"who\">a</span> ends at <strong>");
  EXPECT_FALSE(contains(render({a}), "no verdict"));
}

/// Whether Python's decoder, which is strict, takes it for UTF-8.
bool is_utf8(const std::string& text, const fs::path& file) {
  samples::write(file, text);
  return std::system(("python3 -c 'import sys; open(sys.argv[1], encoding=\"utf-8\").read()' '" +
                      file.string() + "' 2>/dev/null")
                         .c_str()) == 0;
}

TEST_F(Report, BytesThatAreNoUtf8DoNotReachThePage) {
  const std::string odd = "r\xff\xc0\xafn\xed\xa0\x80\xf5\xe2\x82";
  EXPECT_FALSE(is_utf8(odd, path("odd")));
  auto a = run("a");
  a.name = odd;
  a.folder = path(odd);
  a.command = {"stiefel", odd};
  a.settings.emplace_back("data-dir", odd);
  a.settings.emplace_back(odd, "1");
  a.warnings.push_back(odd);
  a.data = a.model = a.optim = a.status = a.device = a.seed = a.started = odd;
  auto b = a;
  b.settings.back().second = "2";
  EXPECT_TRUE(is_utf8(render({a}), path("one")));
  EXPECT_TRUE(is_utf8(render({a, b}), path("two")));
}

TEST_F(Report, ThePageHoldsTheData) {
  const auto a = run("a", {"first", "cayley-sgd", "fashion-mnist", "finished", 20, 8.0});
  const auto b = run("b", {"second", "sgd", "fashion-mnist", "interrupted", 12, 9.5});
  const auto page = render({a, b});
  EXPECT_SAYS(page, "Lowest last test error on Fashion-MNIST: <strong>");
  EXPECT_SAYS(page, "</strong>, <span class=\"who\">first</span>");
  EXPECT_SAYS(page, "<table class=\"results\">");
  EXPECT_SAYS(page, "<table class=\"settings\">");
  EXPECT_SAYS(page, "Cayley SGD");
  EXPECT_SAYS(page, "interrupted");
  EXPECT_SAYS(page, "A processor @ 2.10GHz");
  EXPECT_SAYS(page, "class=\"number best\"");
  // Four charts, each drawn over epochs and over seconds.
  EXPECT_EQ(count(page, "<svg class=\"static"), 8U);
  for (const auto* key : {"train_loss", "test_error", "defect_max", "rate_manifold", "seconds"}) {
    EXPECT_SAYS(page, "\"" + std::string(key) + "\":[");
  }
  char value[32];
  std::snprintf(value, sizeof value, "%g", a.epochs[7].test_error);
  EXPECT_SAYS(page, value);
}

TEST_F(Report, AChartThatNoRunHasValuesForIsLeftOut) {
  const auto page = render({run("a", {"sgd", "sgd"})});
  EXPECT_FALSE(contains(page, "id=\"chart-defect\""));
  EXPECT_SAYS(page, "id=\"chart-rates\"");
  EXPECT_FALSE(contains(page, "class=\"number best\""));  // nobody to compare with
}

TEST_F(Report, HostileNamesAreOnlyNames) {
  const auto a = run("a", {R"(</script><img src=x onerror=\"alert(1)\">&'<!--)"});
  auto b = a;
  b.name = std::string(600, 'x') + "\xff";  // not even UTF-8
  b.settings.emplace_back("evil", "\"><script>alert(2)</script>");
  b.command = {"<b>", "a b"};
  b.status = "<i>";
  const auto page = render({a, b});
  EXPECT_FALSE(contains(page, "<img"));
  EXPECT_FALSE(contains(page, "<script>alert"));
  EXPECT_FALSE(contains(page, "<i>\"") || contains(page, "<b> "));
  EXPECT_SAYS(page, "&lt;/script&gt;&lt;img src=x onerror=&quot;alert(1)&quot;&gt;&amp;&#39;&lt;!--");
  EXPECT_SAYS(page, R"(\u003c/script\u003e\u003cimg src=x)");
  EXPECT_SAYS(page, "&#39;&lt;b&gt;&#39; &#39;a b&#39;");
  EXPECT_EQ(count(page, "</script>"), stiefel::report::assets::dygraphs_js.empty() ? 2U : 3U);
}

TEST_F(Report, RunsOfTheSameNameAreToldApart) {
  const auto page = render({run("one/x"), run("two/x")});
  EXPECT_SAYS(page, "one/x)");
  EXPECT_SAYS(page, "two/x)");
}

TEST_F(Report, NothingIsLoadedFromAnywhere) {
  auto page = render({run("a"), run("b")});
  EXPECT_SAYS(page, "default-src 'none'");
  EXPECT_FALSE(contains(page, "sourceMappingURL"));
  // Whatever names an address outside the licence and the embedded library is a mistake.
  const auto cut = [&](const std::string& part) {
    if (part.empty()) return;
    const auto at = page.find(part);
    ASSERT_NE(at, std::string::npos);
    page.erase(at, part.size());
  };
  cut(stiefel::base::escape_html(std::string(stiefel::report::assets::dygraphs_license)));
  cut(stiefel::base::escape_script(std::string(stiefel::report::assets::dygraphs_js)));
  cut(stiefel::base::escape_style(std::string(stiefel::report::assets::dygraphs_css)));
  EXPECT_FALSE(contains(page, "http://"));
  EXPECT_FALSE(contains(page, "https://"));
  EXPECT_EQ(count(page, "href="), count(page, "href=\"data:,\""));
  for (const auto* load : {" src=", "@import", "url(", "fetch(", "XMLHttpRequest"}) {
    EXPECT_FALSE(contains(page, load)) << load;
  }
}

/// 100 images of which image i is certified up to i/100, and every tenth is wrong.
std::string certified_csv(double scale) {
  std::vector<stiefel::record::CertifiedImage> images;
  for (int64_t i = 0; i < 100; ++i) {
    const auto way = static_cast<double>(i);
    images.push_back({3, i % 10 == 0 ? 4 : 3, way / 50, scale * way / 100});
  }
  return stiefel::record::to_csv(images);
}

TEST_F(Report, ShowsWhatIsCertified) {
  const auto first = samples::write_run(folder_ / "a", Sample{});
  Sample other;
  other.optim = "sgd";
  const auto second = samples::write_run(folder_ / "b", other);
  EXPECT_FALSE(contains(render({read_run_folder(first), read_run_folder(second)}), "Certified accuracy"));
  samples::write(first / "certified.csv", certified_csv(1));
  const auto run = read_run_folder(first);
  ASSERT_EQ(run.certified.size(), 100U);
  EXPECT_EQ(run.certified[7].radius, 0.07);
  EXPECT_EQ(run.certified[10].predicted, 4);
  const auto page = render({run, read_run_folder(second)});
  EXPECT_TRUE(contains(page, "id=\"chart-certified\""));
  EXPECT_EQ(count(page, "data-run=\"0\"><path class=\"line\""), 9U) << "a line per chart and this one";
  // 90 are right; above 36/255 = 0.1412 are the images 15 to 99 without the wrong ones, and so on.
  for (const char* cell : {"90.00 %", "77.00 %", "64.00 %", "52.00 %"})
    EXPECT_TRUE(contains(page, std::string("\">") + cell + "</td>")) << cell;
  samples::write(second / "certified.csv", certified_csv(0.5));
  EXPECT_TRUE(contains(render({run, read_run_folder(second)}), "data-run=\"1\"><path class=\"line\""));
}

TEST_F(Report, ADamagedFileOfCertificatesIsNamed) {
  const auto folder = samples::write_run(folder_ / "a", Sample{});
  const auto file = folder / "certified.csv";
  samples::write(file, "image,label\n");
  EXPECT_TRUE(
      contains(read_error(folder), "certified.csv: line 1: expected 'image,label,predicted,margin,radius'"));
  samples::write(file, "image,label,predicted,margin,radius\n0,1,1,0.5\n");
  EXPECT_TRUE(contains(read_error(folder), "line 2: expected 5 values, got 4"));
  samples::write(file, "image,label,predicted,margin,radius\n0,1,1,0.5,many\n");
  EXPECT_TRUE(contains(read_error(folder), "line 2: 'many' is not a number"));
  samples::write(file, "image,label,predicted,margin,radius\n0,1,1,0.5,inf\n");
  EXPECT_TRUE(contains(read_error(folder), "line 2: margin and radius must be finite"));
  samples::write(file, "image,label,predicted,margin,radius\n1,1,1,0.5,0.2\n");
  EXPECT_TRUE(contains(read_error(folder), "line 2: expected image 0, got 1"));
  samples::write(file, "image,label,predicted,margin,radius\n0,1,1,0.5,0.2");
  EXPECT_TRUE(
      contains(read_error(folder), "line 2: it was cut short; write it again with stiefel eval --certify"));
}

TEST_F(Report, NoRunIsAnError) {
  EXPECT_SAYS(message_of([] { render({}); }), "at least one run");
}

TEST_F(Report, WritesAtomically) {
  const auto a = run("a");
  const auto file = path("report.html");
  samples::write(file, "the old one");
  struct stat before {};
  ASSERT_EQ(::stat(file.c_str(), &before), 0);
  std::ifstream reader(file);  // somebody has it open
  stiefel::base::write_file(file, render({a}));
  EXPECT_EQ(slurp(file), render({a}));
  struct stat after {};
  ASSERT_EQ(::stat(file.c_str(), &after), 0);
  EXPECT_NE(before.st_ino, after.st_ino);
  std::string old((std::istreambuf_iterator<char>(reader)), std::istreambuf_iterator<char>());
  EXPECT_EQ(old, "the old one");
}

TEST_F(Report, WhereItCannotBeWrittenTheOldOneStays) {
  const auto write_atomically = [](const std::string& text, const fs::path& to) {
    stiefel::base::write_file(to, text);
  };
  EXPECT_SAYS(message_of([&] { write_atomically("x", path("none/report.html")); }), "make its folder first");
  fs::create_directories(path("folder"));
  EXPECT_SAYS(message_of([&] { write_atomically("x", path("folder")); }), "is a folder; name a file");
  if (::geteuid() != 0) {  // root may write anywhere
    fs::permissions(path("folder"), fs::perms::owner_read | fs::perms::owner_exec);
    EXPECT_SAYS(message_of([&] { write_atomically("x", path("folder/r.html")); }), "that you may write to");
    fs::permissions(path("folder"), fs::perms::owner_all);
  }
  // A limit on the size of files stands in for a full disk.
  const auto file = path("out/report.html");
  samples::write(file, "the old one");
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = limit;
  tight.rlim_cur = 4096;
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &tight), 0);
  const auto message = message_of([&] { write_atomically(std::string(10000, 'x'), file); });
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_SAYS(message, "cannot be written");
  EXPECT_SAYS(message, "free some space");
  EXPECT_EQ(slurp(file), "the old one");
  size_t files = 0;
  for (const auto& entry : fs::directory_iterator(path("out"))) files += entry.exists() ? 1 : 0;
  EXPECT_EQ(files, 1U);  // no temporary file is left
}

}  // namespace report_test
