#include "commits.h"

namespace stiefel::report {

std::vector<std::string> commits_of(const nlohmann::json& facts) {
  std::vector<std::string> all;
  const auto add = [&](const nlohmann::json& part) {
    const auto found = part.is_object() ? part.find("commit") : part.end();
    if (found == part.end() || !found->is_string()) return;
    const auto commit = found->get<std::string>();
    if (!commit.empty() && (all.empty() || all.back() != commit)) all.push_back(commit);
  };
  if (const auto earlier = facts.find("earlier"); earlier != facts.end() && earlier->is_array()) {
    for (const auto& part : *earlier) add(part);
  }
  add(facts);
  return all;
}

}  // namespace stiefel::report
