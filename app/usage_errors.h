#pragma once

#include <CLI/App.hpp>
#include <string>
#include <vector>

namespace stiefel::app {

/// What is wrong with a command line that the parser rejected, and where to look: the unknown option and the
/// one that was probably meant, or the parser's own message. `words` are the arguments, without the program's
/// name.
std::string explain_usage_error(const CLI::App& app, const CLI::ParseError& error,
                                const std::vector<std::string>& words);

}  // namespace stiefel::app
