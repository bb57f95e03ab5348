#include "check.h"

#include <algorithm>
#include <iomanip>
#include <ostream>
#include <stdexcept>

#include "dataset.h"
#include "md5.h"

namespace stiefel::data {

namespace {

CheckedFile check_file(const std::filesystem::path& folder, const FileFacts& facts, int64_t classes) {
  CheckedFile result;
  const auto file = find_file(folder, facts.name);
  result.file = file.value_or(folder / facts.name);
  if (!file) {
    result.problem = "is missing";
    return result;
  }
  try {
    // In this order: what unpacks to far more than the set is found out before all of it is summed.
    result.count = count_in(*file, facts, classes);
    result.md5 = md5_of(*file);
  } catch (const std::runtime_error& error) {
    result.problem = error.what();
    return result;
  }
  if (result.count != facts.count) {
    result.problem = "expected " + std::to_string(facts.count) +
                     (facts.content == Content::kIdxLabels ? " labels" : " images") + ", found " +
                     std::to_string(result.count);
  } else if (result.md5 != facts.md5) {
    result.problem = "expected the MD5 sum " + facts.md5 + ", found " + result.md5;
  }
  return result;
}

}  // namespace

bool CheckReport::ok() const {
  return std::all_of(files.begin(), files.end(),
                     [](const CheckedFile& file) { return file.problem.empty(); });
}

std::ostream& operator<<(std::ostream& out, const CheckReport& report) {
  size_t width = 0;
  for (const auto& file : report.files) width = std::max(width, file.file.filename().string().size());
  for (const auto& file : report.files) {
    out << "  " << std::left << std::setw(static_cast<int>(width)) << file.file.filename().string() << "  ";
    if (file.problem.empty()) {
      out << std::right << std::setw(6) << file.count << "  " << file.md5 << "  good\n";
    } else {
      out << "BAD: " << file.problem << "\n";
    }
  }
  return out;
}

CheckReport check(const SetFacts& facts, const std::filesystem::path& folder) {
  CheckReport report{facts.name, folder, {}};
  for (const auto& file : facts.files) report.files.push_back(check_file(folder, file, facts.classes));
  return report;
}

CheckReport check(const std::string& name, const std::filesystem::path& data_dir) {
  const auto& facts = facts_of(name);
  return check(facts, locate(facts, data_dir));
}

}  // namespace stiefel::data
