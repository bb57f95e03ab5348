#pragma once

#include <string>

/// The command's own streams. Whatever is wrong with them, nothing here throws: an error stream that is full
/// or closed must not change how the command ends, and the output's failure is told once, at the end.
namespace stiefel::base {

/// Gives each of the three streams that the command was started without a place where every use of it fails.
/// Without it, the next file that is opened would take the stream's number, and get what is printed.
void open_missing_streams();

/// A line on the error stream, at once.
void say(const std::string& line);

/// Writes out what was printed. Returns the exit status: `status`, or 1 in place of success where the output
/// could not be written, having said so.
int finish_output(int status);

}  // namespace stiefel::base
