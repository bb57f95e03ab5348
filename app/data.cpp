#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <memory>

#include "base/printable.h"
#include "command.h"
#include "data/check.h"
#include "data/get.h"
#include "data/places.h"

namespace stiefel::app {

namespace {

std::vector<std::string> set_names() {
  std::vector<std::string> names;
  for (const auto& facts : data::catalog()) names.push_back(facts.name);
  return names;
}

void add_list(CLI::App& group, const std::shared_ptr<std::string>& folder) {
  auto* command = group.add_subcommand("list", "what is found where");
  command->add_option("--data-dir", *folder, data::kDataDirHelp);
  command->callback([folder] {
    for (const auto& found : data::list(*folder)) {
      if (found.where.empty()) {
        fmt::print("{:14} not found; fetch it with: {}\n", found.name,
                   data::fetch_remedy(data::facts_of(found.name), *folder));
      } else if (!found.complete()) {
        fmt::print("{:14} {} lacks {}\n", found.name, base::printable(found.where),
                   fmt::join(found.missing, ", "));
      } else {
        fmt::print("{:14} {}{}\n", found.name, base::printable(found.where),
                   found.used ? "" : " (another is used)");
      }
    }
  });
}

void add_check(CLI::App& group, const std::shared_ptr<std::string>& folder) {
  auto* command = group.add_subcommand("check", "whether a set is the published one: counts and checksums");
  const auto name = std::make_shared<std::string>();
  command->add_option("NAME", *name, "data set")->required()->check(CLI::IsMember(set_names()));
  command->add_option("--data-dir", *folder, data::kDataDirHelp);
  command->callback([=] {
    const auto report = data::check(*name, *folder);
    std::cout << report;
    if (!report.ok()) throw Exit{1};
  });
}

void add_get(CLI::App& group) {
  auto* command = group.add_subcommand("get", "fetch a set into the cache");
  const auto name = std::make_shared<std::string>();
  const auto from = std::make_shared<std::vector<std::string>>();
  command->add_option("NAME", *name, "data set")->required()->check(CLI::IsMember(set_names()));
  command->add_option("--from", *from, "folder, archive or files to take it from instead of the network");
  command->callback([=] {
    data::GetOptions options;
    options.from.assign(from->begin(), from->end());
    options.progress = &std::cout;
    fmt::print("{}\n", base::printable(data::get(*name, options)));
  });
}

}  // namespace

void add_data(CLI::App& app) {
  auto* group = app.add_subcommand("data", "find, check and fetch data sets");
  group->require_subcommand(1);
  const auto folder = std::make_shared<std::string>();
  add_list(*group, folder);
  add_check(*group, folder);
  add_get(*group);
}

}  // namespace stiefel::app
