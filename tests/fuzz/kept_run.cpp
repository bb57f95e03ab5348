#include "record/kept_run.h"

#include "errors.h"
#include "record/damaged_run.h"

// A kept run, NAME.json: refused by DamagedRun, or a run whose epochs increase and whose text stays the same
// when it is read and written again.

namespace kept_run_target {

FUZZ_TARGET(kept_run) {
  using namespace stiefel::record;
  RunFolder run;
  if (!fuzz::reads<DamagedRun>([&] { run = parse_kept_run("a.json", std::string(input)); })) return;
  fuzz::require(run.facts.is_object() && run.name == "a", "no facts, or no name");
  for (size_t i = 1; i < run.epochs.size(); ++i) {
    fuzz::require(run.epochs[i - 1].epoch < run.epochs[i].epoch, "epochs that do not increase");
  }
  const auto text = kept_run_text(run);
  const auto again = parse_kept_run("a.json", text);
  fuzz::require(again.epochs.size() == run.epochs.size(), "epochs are lost");
  fuzz::require(again.settings.size() <= run.settings.size(), "entries of the config are made up");
  fuzz::require(kept_run_text(again) == text, "a kept run changes when it is written");
}

}  // namespace kept_run_target
