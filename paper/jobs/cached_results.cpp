#include "cached_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "base/files.h"
#include "base/json.h"
#include "base/printable.h"

namespace stiefel::paper {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

bool is_whole(const Results& results) {
  const auto& cells = results.experiment->cells;
  return results.cells.size() == cells.size() &&
         std::all_of(cells.begin(), cells.end(), [&](const Cell& cell) {
           const auto* found = results.find(cell.row, cell.column);
           return found && !found->measured.empty();
         });
}

/// The facts of origin that all numbers share; they are written once.
json shared_origin(const Results& results) {
  json shared = results.cells.front().measured.front().origin;
  for (const auto& result : results.cells) {
    for (const auto& one : result.measured) {
      for (auto fact = shared.begin(); fact != shared.end();) {
        const bool same = one.origin.value(fact.key(), json()) == fact.value();
        fact = same ? std::next(fact) : shared.erase(fact);
      }
    }
  }
  return shared;
}

json own_origin(const json& origin, const json& shared) {
  json own = json::object();
  for (const auto& [name, value] : origin.items()) {
    if (!shared.contains(name)) own[name] = value;
  }
  return own;
}

/// What is not a finite number is null in JSON.
double number(const json& value) { return value.is_null() ? NAN : value.get<double>(); }

CellResult read_cell(const Cell& cell, const json& cached, const json& shared) {
  CellResult result{cell, 0, {}, {}, {}};
  const json measured = cached.at("measured");
  for (const auto& one : measured) {
    auto origin = shared;
    origin.update(one.at("provenance"));
    if (!origin.value("hardware", json::object()).is_object())
      throw std::runtime_error("its hardware is not an object");
    result.measured.push_back({one.at("seed").get<int64_t>(), number(one.at("value")), origin, {}});
  }
  if (result.measured.empty())
    throw std::runtime_error(fmt::format("no number in {}, {}", cell.row, cell.column));
  result.wanted = static_cast<int64_t>(result.measured.size());
  if (cached.contains("passes")) result.passes = cached["passes"].get<bool>();
  result.remark = cached.value("remark", std::string());
  return result;
}

void expect(const json& all, const char* name, const std::string& value) {
  const auto found = all.at(name).get<std::string>();
  if (found != value) throw std::runtime_error(fmt::format("its {} is {}, not {}", name, found, value));
}

Results parse(const Experiment& experiment, Scale scale, const std::string& text) {
  const auto all = base::parse_json(text);
  expect(all, "experiment", experiment.name);
  expect(all, "scale", to_string(scale));
  const json cached = all.at("cells");
  if (cached.size() != experiment.cells.size())
    throw std::runtime_error(fmt::format("it has {} cells, not {}", cached.size(), experiment.cells.size()));
  Results results{&experiment, scale, {}};
  for (const auto& cell : experiment.cells) {
    const auto found = std::find_if(cached.begin(), cached.end(), [&](const json& one) {
      return one.at("row") == cell.row && one.at("column") == cell.column;
    });
    if (found == cached.end())
      throw std::runtime_error(fmt::format("it has no cell {}, {}", cell.row, cell.column));
    results.cells.push_back(read_cell(cell, *found, all.at("provenance")));
  }
  return results;
}

}  // namespace

fs::path cached_results_file(const Experiment& experiment, Scale scale, const fs::path& out) {
  return out / to_string(scale) / (experiment.name + ".json");
}

bool cache_results(const Results& results, const fs::path& out) {
  if (!is_whole(results)) return false;
  const auto shared = shared_origin(results);
  json cells = json::array();
  for (const auto& result : results.cells) {
    json cell{{"row", result.cell.row}, {"column", result.cell.column}, {"measured", json::array()}};
    for (const auto& one : result.measured) {
      cell["measured"].push_back(
          {{"seed", one.seed}, {"value", one.value}, {"provenance", own_origin(one.origin, shared)}});
    }
    if (result.passes) cell["passes"] = *result.passes;
    if (!result.remark.empty()) cell["remark"] = result.remark;
    cells.push_back(std::move(cell));
  }
  const json all{{"experiment", results.experiment->name},
                 {"scale", to_string(results.scale)},
                 {"provenance", shared},
                 {"cells", cells}};
  const auto file = cached_results_file(*results.experiment, results.scale, out);
  fs::create_directories(file.parent_path());
  base::write_file(file, base::dump_json(all));
  return true;
}

std::optional<Results> read_cached_results(const Experiment& experiment, Scale scale, const fs::path& out) {
  const auto file = cached_results_file(experiment, scale, out);
  if (!fs::exists(file)) return std::nullopt;
  const auto text = base::read_file(file);
  try {
    return parse(experiment, scale, text);
  } catch (const std::exception& error) {
    throw std::runtime_error(fmt::format(
        "{} is damaged or of another version: {}; restore it from a copy or compute it again with "
        "`stiefel paper {} --scale {} --out {}`",
        base::printable(file), error.what(), experiment.name, to_string(scale), base::shell_word(out)));
  }
}

int64_t seeds_of(const Results& computed) {
  for (const auto& result : computed.cells) {
    for (const auto& one : result.measured) {
      const auto seeds = one.origin.find("seeds");
      if (seeds != one.origin.end() && seeds->is_number_integer()) return seeds->get<int64_t>();
    }
  }
  return 0;
}

}  // namespace stiefel::paper
