#include "report/settings.h"

#include <algorithm>
#include <map>

#include "report/effect.h"

namespace stiefel::report {

bool Setting::differs() const {
  const auto first = std::find(idle.begin(), idle.end(), false) - idle.begin();
  for (size_t i = 0; i < values.size(); ++i) {
    const auto other = static_cast<size_t>(first);
    if (!idle[i] && (present[i] != present[other] || values[i] != values[other])) return true;
  }
  return false;
}

bool Setting::is_idle() const { return std::find(idle.begin(), idle.end(), false) == idle.end(); }

std::string Setting::usual() const {
  std::vector<std::string> counted;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!idle[i]) counted.push_back(values[i]);
  }
  const auto count = [&](const std::string& value) {
    return std::count(counted.begin(), counted.end(), value);
  };
  const auto usual = std::max_element(counted.begin(), counted.end(),
                                      [&](const auto& a, const auto& b) { return count(a) < count(b); });
  return usual == counted.end() ? "" : *usual;
}

std::vector<Setting> gather_settings(const std::vector<RunFolder>& runs) {
  std::vector<Setting> all;
  std::map<std::string, size_t> index;
  for (size_t r = 0; r < runs.size(); ++r) {
    for (const auto& [key, value] : runs[r].settings) {
      const auto [found, fresh] = index.emplace(key, all.size());
      const std::vector<bool> no(runs.size());
      if (fresh) all.push_back({key, std::vector<std::string>(runs.size()), no, no});
      all[found->second].values[r] = value;
      all[found->second].present[r] = true;
      all[found->second].idle[r] = !has_effect(key, runs[r]);
    }
  }
  return all;
}

}  // namespace stiefel::report
