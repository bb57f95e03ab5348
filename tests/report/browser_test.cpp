#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>

#include "report/assets.h"
#include "report/page.h"
#include "report_samples.h"
#include "tests/scratch.h"

// The page in a real browser: headless Chromium opens it, uses its switches, and must not complain.

namespace browser_test {

namespace fs = std::filesystem;
using samples::Sample;

constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE

std::string find_chromium() {
  const char* const path = std::getenv("PATH");
  for (const auto* name : {"chromium", "chromium-browser", "google-chrome"}) {
    std::istringstream folders(path == nullptr ? "" : path);
    for (std::string folder; std::getline(folders, folder, ':');) {
      const fs::path program = fs::path(folder) / name;
      if (::access(program.c_str(), X_OK) == 0) return program.string();
    }
  }
  return "";
}

std::string slurp(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

#define EXPECT_SAYS(text, part) EXPECT_TRUE(contains(text, part)) << part

struct Visit {
  int status = -1;
  std::string dom;
  std::string console;  // every line that the page caused in the browser's log
};

/// Opens the page, waits until its scripts have settled, and brings back the document.
Visit visit(const std::string& page) {
  const scratch::Folder folder;
  const fs::path file = folder.path() / "report.html";
  samples::write(file, page);
  const std::string command =
      "timeout 120 '" + find_chromium() +
      "' --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
      "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1280,900 "
      "--enable-logging=stderr --v=0 --virtual-time-budget=3000 --user-data-dir='" +
      (folder.path() / "profile").string() + "' --dump-dom 'file://" + file.string() + "' >'" +
      (folder.path() / "dom").string() + "' 2>'" + (folder.path() / "log").string() + "'";
  Visit result;
  result.status = std::system(command.c_str());
  result.dom = slurp(folder.path() / "dom");
  std::istringstream log(slurp(folder.path() / "log"));
  for (std::string line; std::getline(log, line);) {
    if (contains(line, "CONSOLE")) result.console += line + "\n";
  }
  return result;
}

/// The page with a script at its end that tries things out and leaves what it saw in an attribute.
std::string with_probe(const std::string& page, const std::string& script) {
  const auto end = page.rfind("</body>");
  return page.substr(0, end) + "<script>const seen = [];\n" + script +
         "\ndocument.body.setAttribute('data-seen', seen.join(' '));</script>\n" + page.substr(end);
}

std::string seen(const std::string& dom) {
  const std::string key = "data-seen=\"";
  const auto begin = dom.find(key);
  if (begin == std::string::npos) return "(the probe did not end)";
  return dom.substr(begin + key.size(), dom.find('"', begin + key.size()) - begin - key.size());
}

class Browser : public scratch::Test {
 protected:
  stiefel::report::RunFolder run(const std::string& name, const Sample& sample) const {
    return stiefel::report::read_run_folder(samples::write_run(folder_ / name, sample));
  }

  std::vector<stiefel::report::RunFolder> three() const {
    return {
        run("a", {"sgd", "sgd", "fashion-mnist", "finished", 20, 9.1, 6.8}),
        run("b", {"cayley-sgd", "cayley-sgd", "fashion-mnist", "finished", 20, 8.6, 7.2, 2}),
        run("c", {"</script> & \\\"c\\\"", "cayley-adam", "fashion-mnist", "interrupted", 13, 8.8, 7.4, 3})};
  }
};

const bool kLive = !stiefel::report::assets::dygraphs_js.empty();

TEST_F(Browser, OpensWithoutAComplaint) {
  const auto result = visit(stiefel::report::render(three()));
  EXPECT_EQ(result.status, 0);
  EXPECT_EQ(result.console, "");
  EXPECT_SAYS(result.dom, "data-ready=\"yes\"");
  EXPECT_SAYS(result.dom, "<table class=\"results\">");
  EXPECT_SAYS(result.dom, "<table class=\"settings\">");
  EXPECT_EQ(contains(result.dom, "<canvas"), kLive);
}

TEST_F(Browser, TheSwitchesWork) {
  const auto page = with_probe(stiefel::report::render(three()), R"(
    const all = (selector) => Array.from(document.querySelectorAll(selector));
    const shown = (element) => element && getComputedStyle(element).display !== 'none';
    seen.push('rows:' + all('.results tbody tr').length, 'canvases:' + all('canvas').length);
    const axis = () => all('#chart-loss .dygraph-axis-label-x').map((e) => e.textContent).join(',');
    const before = axis();
    document.querySelector('input[value=seconds]').click();
    seen.push('seconds:' + document.documentElement.dataset.across, 'axis:' + (axis() !== before));
    document.querySelector('input[data-show="1"]').click();
    seen.push('hidden:' + all('.static .hidden').length);
    all('input[data-log]').forEach((input) => { if (shown(input.parentNode)) { input.click(); input.click(); } });
    document.querySelector('input[value=epoch]').click();
    const plot = document.querySelector('#chart-error .plot');
    plot.focus();
    for (let i = 0; i < 3; i++) plot.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowRight', bubbles: true}));
    const tip = plot.querySelector('.tip');
    seen.push('tip:' + (tip && !tip.hidden ? tip.querySelectorAll('tbody tr').length : 'none'));
    if (tip) seen.push('at:' + tip.querySelector('caption').textContent.replace(' ', '-'));
    const names = () => all('.results tbody th .name').map((e) => e.textContent[0]).join('');
    const sort = all('.results thead button').find((button) => button.textContent === 'Epochs');
    sort.click();
    seen.push('sorted:' + names()[0]);
    sort.click();
    seen.push('again:' + names()[2]);
    seen.push('wide:' + (document.documentElement.scrollWidth > innerWidth));
  )");
  const auto result = visit(page);
  EXPECT_EQ(result.console, "");
  EXPECT_EQ(seen(result.dom), kLive ? "rows:3 canvases:8 seconds:seconds axis:true hidden:8 tip:2 at:epoch-3 "
                                      "sorted:&lt; again:&lt; wide:false"
                                    : "rows:3 canvases:0 seconds:seconds axis:false hidden:8 tip:none "
                                      "sorted:&lt; again:&lt; wide:false");
}

TEST_F(Browser, TheKeysStepThroughTheEpochsOfTheRates) {
  if (!kLive) GTEST_SKIP() << "built without dygraphs";
  // The rates of the first run: 0.1 up to epoch 6 of 20, then 0.02. A rate has two points an epoch.
  const auto page = with_probe(stiefel::report::render({run("a", {"sgd", "sgd"})}), R"(
    const plot = document.querySelector('#chart-rates .plot');
    plot.focus();
    const press = (key) => plot.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    const tip = () => plot.querySelector('.tip');
    const read = () => tip().querySelector('caption').textContent.replace(' ', '-') + '=' +
      tip().querySelector('tbody td').textContent;
    press('ArrowRight');
    seen.push(read());
    for (let i = 0; i < 5; i++) press('ArrowRight');
    seen.push(read());
    press('ArrowRight');
    seen.push(read());
    press('ArrowLeft');
    seen.push(read());
  )");
  const auto result = visit(page);
  EXPECT_EQ(result.console, "");
  EXPECT_EQ(seen(result.dom), "epoch-1=0.1 epoch-6=0.1 epoch-7=0.02 epoch-6=0.1");
}

TEST_F(Browser, ZoomIsSharedAndCanBeReset) {
  if (!kLive) GTEST_SKIP() << "built without dygraphs";
  const auto page = with_probe(stiefel::report::render(three()), R"(
    const box = (id) => document.querySelector(id + ' .canvas canvas:last-of-type');
    const ticks = (id) => Array.from(document.querySelectorAll(id + ' .dygraph-axis-label-x')).map((e) => e.textContent).join(',');
    const canvas = box('#chart-loss');
    const place = canvas.getBoundingClientRect();
    const fire = (target, kind, x) => target.dispatchEvent(new MouseEvent(kind, {bubbles: true, cancelable: true,
      view: window, button: 0, clientX: place.left + x, clientY: place.top + 80, screenX: place.left + x, screenY: place.top + 80}));
    const whole = ticks('#chart-error');
    fire(canvas, 'mousedown', 150);
    fire(document, 'mousemove', 220);
    fire(document, 'mousemove', 320);
    fire(document, 'mouseup', 320);
    seen.push('zoomed:' + (ticks('#chart-error') !== whole), 'same:' + (ticks('#chart-error') === ticks('#chart-loss')));
    const reset = document.getElementById('reset');
    seen.push('offered:' + !reset.disabled);
    reset.click();
    seen.push('whole:' + (ticks('#chart-error') === whole), 'done:' + reset.disabled);
  )");
  const auto result = visit(page);
  EXPECT_EQ(result.console, "");
  EXPECT_EQ(seen(result.dom), "zoomed:true same:true offered:true whole:true done:true");
}

TEST_F(Browser, OneRunOfOneEpochAndTwelveRuns) {
  const auto single =
      visit(stiefel::report::render({run("one", {"one", "cayley-sgd", "fashion-mnist", "running", 1})}));
  EXPECT_EQ(single.console, "");
  EXPECT_SAYS(single.dom, "data-ready=\"yes\"");
  std::vector<stiefel::report::RunFolder> many;
  for (int i = 0; i < 12; ++i) {
    const std::string name = "run-" + std::to_string(i);
    many.push_back(run(name, {name, i % 3 == 0 ? "sgd" : "cayley-sgd", "fashion-mnist", "finished", 15 + i,
                              8.0 + 0.2 * i, 7, i}));
  }
  const auto dozen = visit(stiefel::report::render(many));
  EXPECT_EQ(dozen.console, "");
  EXPECT_SAYS(dozen.dom, "data-ready=\"yes\"");
}

TEST_F(Browser, AFrameAroundRunsAndAroundNone) {
  const stiefel::report::Frame frame{
      "a kind",
      "A title",
      "<p>under it</p>",
      "<table class=\"results "
      "fixed\"><thead><tr><th>a</th></tr></thead><tbody><tr><td>2</td></tr><tr><td>1</td></tr>"
      "</tbody></table>",
      "<p>below</p>",
      "stiefel something"};
  const auto page = with_probe(stiefel::report::render(frame, three()), R"(
    seen.push('charts:' + document.querySelectorAll('figure').length);
    seen.push('buttons:' + document.querySelectorAll('table.fixed button').length);
    seen.push('wide:' + (document.documentElement.scrollWidth > innerWidth));
  )");
  const auto around = visit(page);
  EXPECT_EQ(around.console, "");
  EXPECT_SAYS(around.dom, "data-ready=\"yes\"");
  EXPECT_EQ(seen(around.dom), "charts:4 buttons:0 wide:false");
  const auto bare = visit(stiefel::report::render(frame, {}));
  EXPECT_EQ(bare.console, "");
  EXPECT_SAYS(bare.dom, "<h1>A title</h1>");
  EXPECT_FALSE(contains(bare.dom, "<script"));
}

TEST_F(Browser, TheCheckItselfHearsAnError) {
  const auto result = visit(with_probe(stiefel::report::render(three()), "throw new Error('on purpose');"));
  EXPECT_SAYS(result.console, "on purpose");
}

}  // namespace browser_test

int main(int argc, char** argv) {
  if (browser_test::find_chromium().empty()) {
    std::cout << "skipped: no chromium on the PATH (Debian: chromium)\n";
    return browser_test::kSkipped;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
