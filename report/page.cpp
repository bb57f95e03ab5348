#include "report/page.h"

#include <stdexcept>

#include "base/escape.h"
#include "base/html.h"
#include "report/assets.h"
#include "report/content.h"

namespace stiefel::report {

namespace {

std::string script(const std::string& attributes, const std::string& text) {
  return "<script" + attributes + ">\n" + text + "\n</script>\n";
}

std::string scripts(const Content& content) {
  std::string out = script(" type=\"application/json\" id=\"report-data\"", chart_data(content));
  if (!assets::dygraphs_js.empty()) out += script("", base::escape_script(std::string(assets::dygraphs_js)));
  return out + script("", base::escape_script(std::string(assets::page_js)));
}

/// The policy makes sure of "opens offline": the browser itself refuses to load anything.
std::string head(const std::string& title) {
  return "<head>\n<meta charset=\"utf-8\">\n"
         "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
         "'unsafe-inline'; "
         "script-src 'unsafe-inline'; img-src data:\">\n"
         "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
         "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n" +
         base::element("title", title) + "\n<style>\n" +
         base::escape_style(std::string(assets::dygraphs_css)) + "\n" +
         base::escape_style(std::string(assets::page_css)) + "</style>\n</head>\n";
}

std::string title_of(const Content& content) {
  const auto& labels = content.labels;
  return content.single() ? labels[0] : plural(labels.size(), "run") + ": " + labels[0] + ", …";
}

std::string footer(const std::string& command, bool charts) {
  std::string out =
      "<footer>\n<p>Made by " + base::element("code", command) + ". This page needs no network.</p>\n";
  if (charts && !assets::dygraphs_license.empty()) {
    out += "<details><summary>Charts by dygraphs: its licence</summary>\n<pre>" +
           base::escape_html(std::string(assets::dygraphs_license)) + "</pre></details>\n";
  }
  return out + "</footer>\n";
}

std::string whole(const std::string& head, const std::string& body) {
  return "<!DOCTYPE html>\n<html lang=\"en-GB\">\n" + head + "<body>\n" + body + "</body>\n</html>\n";
}

}  // namespace

std::string render(const std::vector<RunFolder>& runs) {
  if (runs.empty()) throw std::runtime_error("a report needs at least one run folder");
  const Content content(runs);
  return whole(head(title_of(content) + " · stiefel report"),
               header_section(content) + "<main>\n" + chart_section(content) + certified_section(content) +
                   result_section(content) + config_section(content) + system_section(content) + "</main>\n" +
                   footer("stiefel report", true) + scripts(content));
}

std::string render(const Frame& frame, const std::vector<RunFolder>& runs) {
  const Content content(runs);
  std::string body = "<header>\n<p class=\"kind\"><b>stiefel</b> " + base::escape_html(frame.kind) +
                     "</p>\n" + base::element("h1", frame.title) + "\n" + frame.header +
                     "</header>\n<main>\n" + frame.above + chart_section(content) + frame.below;
  if (!runs.empty()) body += config_section(content) + system_section(content);
  body += "</main>\n" + footer(frame.command, !runs.empty());
  if (!runs.empty()) body += scripts(content);
  return whole(head(frame.title + " · stiefel"), body);
}

}  // namespace stiefel::report
