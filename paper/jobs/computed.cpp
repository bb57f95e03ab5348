#include "computed.h"

#include <fmt/format.h>

#include "record/system.h"

namespace stiefel::paper {

ComputedOrigin::ComputedOrigin() : started_(record::timestamp()) {}

nlohmann::json ComputedOrigin::describe(int64_t seed, int64_t seeds) const {
  return {{"commit", record::commit()},
          {"hardware", record::hardware_facts()},
          {"device", "cpu"},
          {"precision", "fp64"},
          {"libtorch", record::version_facts()["libtorch"]},
          {"seed", seed},
          {"seeds", seeds},
          {"seconds", stopwatch_.seconds()},
          {"date", started_}};
}

Verdict judge_by_passes(const Results& results) {
  int64_t tests = 0;
  bool any = false;
  for (const auto& result : results.cells) {
    any = any || !result.measured.empty();
    if (!result.passes) continue;
    ++tests;
    if (!*result.passes) {
      return {Verdict::Kind::kNotBorneOut, fmt::format("{}, {} fails", result.cell.row, result.cell.column)};
    }
  }
  if (!any) return {Verdict::Kind::kOpen, "it has not been computed"};
  if (tests == 0) return {Verdict::Kind::kOpen, "no test was chosen"};
  return {Verdict::Kind::kBorneOut, fmt::format("{} of {} pass", tests, tests)};
}

}  // namespace stiefel::paper
