#pragma once

#include <exception>
#include <string>

#include "base/printable.h"
#include "target.h"

/// How a reader may refuse an input.
namespace fuzz {

/// A message is text that a terminal shows as it is.
inline void check_message(const std::string& message) {
  require(!message.empty(), "an error without a message");
  require(message == stiefel::base::printable_lines(message),
          "control characters in the message: " + message);
  require(message.size() < 20000, "a message of " + std::to_string(message.size()) + " bytes");
}

/// Whether an input was read. It may be refused by one of the documented types, with a message, and by
/// nothing else.
template <class... Documented, class Read>
bool reads(const Read& read) {
  try {
    read();
    return true;
  } catch (const std::exception& error) {
    if (!(dynamic_cast<const Documented*>(&error) || ...)) {
      broken(std::string("an undocumented type of error: ") + error.what());
    }
    check_message(error.what());
    return false;
  }
}

}  // namespace fuzz
