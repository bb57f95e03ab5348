#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "paper/experiment.h"

namespace stiefel::paper {

/// Where and in which precision a run is made, which the user chooses beside the experiment. None of it
/// changes which run it is.
struct RunEnvironment {
  std::string device = "auto";
  std::string precision = "auto";
  int64_t threads = 0;
  std::string data_dir;
};

/// One run: a recipe at a scale, with a seed, resolved. Its name is its folder's.
struct RunSpec {
  std::string name;
  record::Config config;
  std::optional<UnitarinessPart> unitariness;
};

/// Throws std::invalid_argument where the environment does not suit the recipe.
RunSpec run_spec(const Recipe& recipe, Scale scale, int64_t seed, const RunEnvironment& environment);

/// The options in which a run's config differs from another's in a way that matters. The device, the
/// precision, the threads, the folder of the data and what is written how often do not.
std::vector<std::string> differences_that_matter(const record::Config& a, const record::Config& b);

/// What a measurement is, for run.json and for telling two apart.
nlohmann::json describe(const UnitarinessPart& part);

}  // namespace stiefel::paper
