#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace stiefel::app {

/// What is wrong with a command line that the parser refused, and where to look: the option that is unknown
/// and the one that was perhaps meant, or what the parser says. `words` are the line's, without the program.
std::string explain(const CLI::App& app, const CLI::ParseError& error, const std::vector<std::string>& words);

}  // namespace stiefel::app
