#include <stdexcept>

#include "errors.h"
#include "memory_file.h"
#include "report/page.h"
#include "report/run_folder.h"

// A run's three files, run.json, config.toml and metrics.jsonl with a zero byte between them, become a page:
// refused by std::runtime_error, or a page in which nothing of theirs is markup. An element <xq…> is none of
// ours, and a page has as many scripts as that of a plain run.

namespace report_page_target {

size_t count(const std::string& text, const std::string& part) {
  size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

std::string page_of(std::string_view facts, std::string_view config, std::string_view metrics) {
  const auto& folder = fuzz::memory_folder();
  fuzz::write(folder / "run.json", facts);
  fuzz::write(folder / "config.toml", config);
  fuzz::write(folder / "metrics.jsonl", metrics);
  return stiefel::report::render({stiefel::report::read_run_folder(folder)});
}

std::string_view take_part(std::string_view& input) {
  const auto part = input.substr(0, input.find('\0'));
  input.remove_prefix(std::min(input.size(), part.size() + 1));
  return part;
}

FUZZ_TARGET(report_page) {
  static const auto plain = page_of(R"({"name": "a"})", "epochs = 1\n", R"({"epoch": 1, "test_error": 3})");
  const auto facts = take_part(input);
  const auto config = take_part(input);
  std::string page;
  if (!fuzz::reads<std::runtime_error>([&] { page = page_of(facts, config, input); })) return;
  fuzz::require(page.find("<xq") == std::string::npos, "an element of a run's files in the page");
  for (const auto* tag : {"<script", "</script", "<style", "<iframe", "<!--"}) {
    fuzz::require(count(page, tag) == count(plain, tag), std::string("another number of ") + tag);
  }
}

}  // namespace report_page_target
