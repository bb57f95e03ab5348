#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/files.h"
#include "base/output_format.h"
#include "paper/jobs/cached_results.h"
#include "paper/jobs/results.h"
#include "paper/jobs/run_store.h"
#include "paper/publish/formats.h"
#include "paper/registry.h"
#include "paper_samples.h"
#include "tests/scratch.h"

// What the theorems computed is kept and read back, and nothing else is taken for it.

namespace cached_results_test {

namespace fs = std::filesystem;
namespace base = stiefel::base;
using namespace stiefel::paper;

class Kept : public scratch::Test {};

/// Everything that the outputs are made from; a number that is not finite is as good as another.
void expect_same(const Results& a, const Results& b) {
  EXPECT_EQ(a.experiment, b.experiment);
  EXPECT_EQ(a.scale, b.scale);
  ASSERT_EQ(a.cells.size(), b.cells.size());
  for (size_t i = 0; i < a.cells.size(); ++i) {
    const auto& one = a.cells[i];
    const auto& other = b.cells[i];
    SCOPED_TRACE(one.cell.row + ", " + one.cell.column);
    EXPECT_EQ(one.cell.row, other.cell.row);
    EXPECT_EQ(one.cell.column, other.cell.column);
    EXPECT_EQ(one.wanted, other.wanted);
    EXPECT_EQ(one.passes, other.passes);
    EXPECT_EQ(one.remark, other.remark);
    ASSERT_EQ(one.measured.size(), other.measured.size());
    for (size_t k = 0; k < one.measured.size(); ++k) {
      const double x = one.measured[k].value;
      const double y = other.measured[k].value;
      EXPECT_EQ(one.measured[k].seed, other.measured[k].seed);
      EXPECT_TRUE(x == y || (!std::isfinite(x) && !std::isfinite(y))) << x << " " << y;
      EXPECT_EQ(one.measured[k].origin, other.measured[k].origin);
    }
  }
  for (const auto& format : base::output_formats())
    EXPECT_EQ(format_results(a, judge(a), format), format_results(b, judge(b), format)) << format;
}

TEST_F(Kept, WhatWasComputedIsReadBackTheSame) {
  const auto& theorem = find_experiment("theorem1");
  EXPECT_FALSE(read_cached_results(theorem, Scale::kFull, folder_));
  Results computed{&theorem, Scale::kFull, {}};
  for (const auto& cell : theorem.cells) computed.cells.push_back({cell, 2, {}, {}, {}});
  theorem.compute(computed, 2, [](const std::string&) {});
  for (const auto& name : {"theorem1", "theorem2"}) {
    for (const auto scale : scales()) {
      auto results = samples::computed_theorem(name, scale);
      results.cells[1].measured[1].value = NAN;
      results.cells[1].passes = false;
      if (scale == Scale::kFull && results.experiment == &theorem) results = computed;
      ASSERT_TRUE(cache_results(results, folder_));
      const auto kept = read_cached_results(*results.experiment, scale, folder_);
      ASSERT_TRUE(kept);
      expect_same(results, *kept);
      EXPECT_EQ(seeds_of(*kept), 2);
    }
  }
  const RunStore store(folder_, Scale::kFull);
  EXPECT_TRUE(store.records().empty() && store.complaints().empty()) << "it is no run";
}

TEST_F(Kept, APartIsNotKeptInPlaceOfTheWhole) {
  auto results = samples::computed_theorem("theorem1");
  ASSERT_TRUE(cache_results(results, folder_));
  const auto file = cached_results_file(*results.experiment, results.scale, folder_);
  const auto whole = base::read_file(file);
  auto part = results;
  part.cells.pop_back();
  EXPECT_FALSE(cache_results(part, folder_));
  part = results;
  part.cells[3].measured.clear();
  EXPECT_FALSE(cache_results(part, folder_));
  EXPECT_EQ(base::read_file(file), whole);
  for (auto& one : results.cells[0].measured) one.value += 1;
  EXPECT_TRUE(cache_results(results, folder_));
  expect_same(results, *read_cached_results(*results.experiment, results.scale, folder_));
}

TEST_F(Kept, ADamagedKeptFileIsNamed) {
  const auto results = samples::computed_theorem("theorem1");
  ASSERT_TRUE(cache_results(results, folder_));
  const auto file = cached_results_file(*results.experiment, results.scale, folder_);
  const auto whole = nlohmann::json::parse(base::read_file(file));
  const auto expect_named = [&](const std::string& text) {
    base::write_file(file, text);
    try {
      read_cached_results(*results.experiment, results.scale, folder_);
      FAIL() << text;
    } catch (const std::runtime_error& error) {
      const std::string what = error.what();
      EXPECT_NE(what.find(file.string()), std::string::npos) << what;
      EXPECT_NE(what.find("stiefel paper theorem1 --scale full"), std::string::npos) << what;
    }
  };
  for (const char* text : {"", "{", "[]", "null", "{}", "7", "\"theorem1\""}) expect_named(text);
  expect_named(whole.dump().substr(0, whole.dump().size() / 2));
  // Every part missing, or of another type, or another's.
  for (const char* path :
       {"/experiment", "/scale", "/provenance", "/cells", "/cells/2", "/cells/0/row", "/cells/7/column",
        "/cells/1/measured", "/cells/1/measured/0", "/cells/1/measured/0/seed", "/cells/1/measured/0/value",
        "/cells/1/measured/0/provenance"}) {
    const nlohmann::json::json_pointer place(path);
    auto broken = whole;
    broken[place] = "something else";
    expect_named(broken.dump());
    if (place.back() == "0" || place.back() == "2") continue;
    broken = whole;
    broken[place.parent_pointer()].erase(place.back());
    expect_named(broken.dump());
  }
  auto broken = whole;
  broken["cells"].push_back(broken["cells"][0]);
  expect_named(broken.dump());
  broken = whole;
  broken["cells"][0]["measured"].clear();
  expect_named(broken.dump());
  broken = whole;
  broken["cells"][0]["passes"] = "perhaps";
  expect_named(broken.dump());
  broken = whole;
  broken["provenance"]["hardware"] = "a processor";
  expect_named(broken.dump());
  // Another scale's in this one's place: a lesser computation must not pass for the full one.
  auto smaller = samples::computed_theorem("theorem1", Scale::kSmoke);
  ASSERT_TRUE(cache_results(smaller, folder_));
  expect_named(base::read_file(cached_results_file(*smaller.experiment, smaller.scale, folder_)));
}

}  // namespace cached_results_test
