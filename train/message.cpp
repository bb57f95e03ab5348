#include "message.h"

#include <c10/util/Exception.h>

namespace stiefel::train {

std::string message_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string message = torch ? torch->what_without_backtrace() : error.what();
  const std::string prefix = "stiefel: ";
  return message.compare(0, prefix.size(), prefix) == 0 ? message.substr(prefix.size()) : message;
}

}  // namespace stiefel::train
