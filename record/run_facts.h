#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

/// A run's record, run.json: what was run, by which command, where and when.
namespace stiefel::record {

/// Reads the run.json of a folder. Throws std::runtime_error naming the file, the line and the remedy where
/// it is damaged or no object.
nlohmann::json read_run_facts(const std::filesystem::path& folder);

/// The same of a file that has been read already.
nlohmann::json parse_run_facts(const std::filesystem::path& file, const std::string& text);

void write_run_facts(const std::filesystem::path& folder, const nlohmann::json& facts);

/// The parts that the run in the folder consists of so far, oldest first, each with its command, commit,
/// start, hardware and versions. None where there is no record, or none that is JSON.
nlohmann::json parts_so_far(const std::filesystem::path& folder);

/// What the record in the folder says of the run: running, interrupted or finished. Empty where there is no
/// record, or none that is JSON.
std::string status_of(const std::filesystem::path& folder);

/// The commits that a run's record names, in order: of its earlier parts where it was continued, and the last
/// one's. Equal neighbors are listed once.
std::vector<std::string> commits_of(const nlohmann::json& facts);

}  // namespace stiefel::record
