#include "places.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

namespace stiefel::data {

namespace {

namespace fs = std::filesystem;

fs::path variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? fs::path(value) : fs::path();
}

std::string joined(const std::vector<std::string>& parts, const std::string& between) {
  std::string result;
  for (const auto& part : parts) result += (result.empty() ? "" : between) + part;
  return result;
}

/// MNIST and Fashion-MNIST have the same file names: loose files of these could be either.
bool names_are_its_own(const SetFacts& facts) {
  return std::none_of(catalogue().begin(), catalogue().end(), [&](const SetFacts& other) {
    return other.name != facts.name && other.files.front().name == facts.files.front().name;
  });
}

bool is_called(const fs::path& folder, const SetFacts& facts) {
  auto full = fs::absolute(folder).lexically_normal();
  if (!full.has_filename()) full = full.parent_path();  // "mnist/"
  const auto& names = facts.folders;
  return std::find(names.begin(), names.end(), full.filename().string()) != names.end();
}

/// The folders in which a place may hold the set.
std::vector<fs::path> candidates(const SetFacts& facts, const fs::path& place, bool directly) {
  std::vector<fs::path> result;
  for (const auto& name : facts.folders) result.push_back(place / name);
  if (directly && (names_are_its_own(facts) || is_called(place, facts))) result.push_back(place);
  return result;
}

std::vector<std::string> missing_from(const fs::path& folder, const SetFacts& facts) {
  std::vector<std::string> missing;
  for (const auto& file : facts.files) {
    if (!find_file(folder, file.name)) missing.push_back(file.name);
  }
  return missing;
}

std::string account_of(const SetFacts& facts, const fs::path& place, bool directly) {
  std::error_code ignored;
  std::string text;
  if (!fs::is_directory(place, ignored)) {
    text = "no such folder";
  } else {
    text = "no " + joined(facts.folders, " or ") + " in it";
    if (directly && !names_are_its_own(facts) && missing_from(place, facts).empty()) {
      text += "; the files in it could be of several data sets: move them into a folder called " +
              facts.folders.front();
    }
    for (const auto& folder : candidates(facts, place, directly)) {
      const auto missing = missing_from(folder, facts);
      if (missing.size() < facts.files.size()) text = folder.string() + " lacks " + joined(missing, ", ");
    }
  }
  return "\n  " + place.string() + " (" + text + ")";
}

}  // namespace

fs::path cache_folder() {
  // The XDG specification has relative paths ignored.
  if (const auto cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) return cache / "stiefel";
  if (const auto home = variable("HOME"); !home.empty()) return home / ".cache" / "stiefel";
  return {};
}

fs::path system_folder() { return "/usr/share/datasets"; }

std::vector<fs::path> places(const fs::path& data_dir) {
  if (!data_dir.empty() && !fs::is_directory(data_dir)) {
    throw std::runtime_error(
        data_dir.string() +
        ": the data folder does not exist or is no folder; name the one that holds the sets");
  }
  std::vector<fs::path> result;
  for (const auto& place : {data_dir, variable("STIEFEL_DATA"), cache_folder(), system_folder()}) {
    if (!place.empty() && std::find(result.begin(), result.end(), place) == result.end())
      result.push_back(place);
  }
  return result;
}

std::vector<Found> find(const SetFacts& facts, const fs::path& data_dir) {
  std::vector<Found> result;
  bool complete = false;
  for (const auto& place : places(data_dir)) {
    for (const auto& folder : candidates(facts, place, place == data_dir)) {
      Found found{facts.name, folder, missing_from(folder, facts)};
      if (found.missing.size() == facts.files.size()) continue;
      found.used = !complete && found.complete();
      complete = complete || found.used;
      result.push_back(found);
    }
  }
  return result;
}

fs::path locate(const SetFacts& facts, const fs::path& data_dir) {
  for (const auto& found : find(facts, data_dir)) {
    if (found.used) return found.where;
  }
  std::string text = "the data set " + facts.name + " was not found. Looked in";
  for (const auto& place : places(data_dir)) text += account_of(facts, place, place == data_dir);
  throw std::runtime_error(text + "\nTo fetch it: stiefel data get " + facts.name);
}

std::vector<Found> list(const fs::path& data_dir) {
  std::vector<Found> result;
  for (const auto& facts : catalogue()) {
    auto found = find(facts, data_dir);
    if (found.empty()) found.push_back({facts.name, {}, missing_from({}, facts)});
    result.insert(result.end(), found.begin(), found.end());
  }
  return result;
}

}  // namespace stiefel::data
