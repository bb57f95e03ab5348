#include "places.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "base/printable.h"

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
  return std::none_of(catalog().begin(), catalog().end(), [&](const SetFacts& other) {
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
    if (directly && !names_are_its_own(facts) && missing_from(place, facts).size() < facts.files.size()) {
      text += "; the files in it could be of several data sets: move them into a folder called " +
              facts.folders.front();
    }
    for (const auto& folder : candidates(facts, place, directly)) {
      const auto missing = missing_from(folder, facts);
      if (missing.size() < facts.files.size())
        text = base::printable(folder) + " lacks " + joined(missing, ", ");
    }
  }
  return "\n  " + base::printable(place) + " (" + text + ")";
}

/// What names the folder, for messages.
std::string named_by(const fs::path& data_dir) { return data_dir.empty() ? "$STIEFEL_DATA" : "--data-dir"; }

}  // namespace

fs::path cache_folder() {
  // The XDG specification has relative paths ignored.
  if (const auto cache = variable("XDG_CACHE_HOME"); cache.is_absolute()) return cache / "stiefel";
  if (const auto home = variable("HOME"); !home.empty()) return home / ".cache" / "stiefel";
  return {};
}

fs::path system_folder() { return "/usr/share/datasets"; }

fs::path named_folder(const fs::path& data_dir) {
  return data_dir.empty() ? variable("STIEFEL_DATA") : data_dir;
}

std::vector<fs::path> places(const fs::path& data_dir) {
  if (const auto named = named_folder(data_dir); !named.empty()) {
    std::error_code ignored;
    if (!fs::is_directory(named, ignored)) {
      throw std::runtime_error(
          base::printable(named) +
          ": the data folder does not exist or is no folder; name the one that holds the sets (" +
          named_by(data_dir) + ")");
    }
    return {named};
  }
  if (const auto cache = cache_folder(); !cache.empty()) return {cache, system_folder()};
  return {system_folder()};
}

std::vector<Found> find(const SetFacts& facts, const fs::path& data_dir) {
  std::vector<Found> result;
  bool complete = false;
  const bool named = !named_folder(data_dir).empty();
  for (const auto& place : places(data_dir)) {
    for (const auto& folder : candidates(facts, place, named)) {
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
  const bool named = !named_folder(data_dir).empty();
  std::string text = "the data set " + facts.name + " was not found. Looked in";
  for (const auto& place : places(data_dir)) text += account_of(facts, place, named);
  if (named) text += "\nand nowhere else, because " + named_by(data_dir) + " names this folder.";
  throw std::runtime_error(text + "\nTo fetch it: " + fetch_remedy(facts, data_dir));
}

std::string fetch_remedy(const SetFacts& facts, const fs::path& data_dir) {
  const auto command = "stiefel data get " + facts.name;
  if (named_folder(data_dir).empty()) return command;
  return command + ", and then " + (data_dir.empty() ? "unset STIEFEL_DATA" : "leave out --data-dir");
}

std::vector<Found> list(const fs::path& data_dir) {
  std::vector<Found> result;
  for (const auto& facts : catalog()) {
    auto found = find(facts, data_dir);
    if (found.empty()) found.push_back({facts.name, {}, missing_from({}, facts)});
    result.insert(result.end(), found.begin(), found.end());
  }
  return result;
}

}  // namespace stiefel::data
