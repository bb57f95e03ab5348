#pragma once

#include <string>

/// The standard streams. Nothing here throws: an error stream that is full or closed must not change the exit
/// status, and an output that cannot be written is reported once, at the end.
namespace stiefel::base {

/// Gives each of the three streams that the command was started without a place where every use of it fails.
/// Without it, the next file that is opened would take the stream's number, and get what is printed.
void open_missing_streams();

/// Writes a line to the error stream, and flushes it.
void say(const std::string& line);

/// Flushes the output. Returns the exit status: `status`, or 1 instead of 0 where the output could not be
/// written, which it reports.
int finish_output(int status);

}  // namespace stiefel::base
