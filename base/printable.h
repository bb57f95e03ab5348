#pragma once

#include <filesystem>
#include <string>

/// Names from users, made safe for what a program prints.
namespace stiefel::base {

/// The text with every byte that a terminal would act on written as an escape: control characters, line
/// breaks among them, and bytes that are not UTF-8. Other text stays as it is.
std::string printable(const std::string& text);
inline std::string printable(const std::filesystem::path& path) { return printable(path.string()); }

/// The same for text of several lines, whose line breaks stay.
std::string printable_lines(const std::string& text);

/// A word of a command line, quoted where a shell needs it: bash reads it as one word with the same bytes.
std::string shell_quoted(const std::string& word);

/// The path as one word of a command to type: quoted, and never taken for an option.
std::string shell_word(const std::filesystem::path& path);

}  // namespace stiefel::base
