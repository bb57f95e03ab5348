#include "record/run_facts.h"

#include "base/json.h"
#include "errors.h"
#include "record/damaged_run.h"

// run.json: refused by DamagedRun, or an object that stays the same when it is written and read again.

namespace run_facts_target {

FUZZ_TARGET(run_facts) {
  using namespace stiefel::record;
  nlohmann::json facts;
  if (!fuzz::reads<DamagedRun>([&] { facts = parse_run_facts("run.json", std::string(input)); })) return;
  fuzz::require(facts.is_object(), "run.json is no object");
  for (const auto& commit : commits_of(facts)) fuzz::require(!commit.empty(), "an empty commit");
  fuzz::require(parse_run_facts("run.json", stiefel::base::dump_json(facts)) == facts,
                "run.json changes when it is written");
}

}  // namespace run_facts_target
