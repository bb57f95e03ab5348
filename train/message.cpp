#include "message.h"

#include <c10/util/Exception.h>

namespace stiefel::train {

std::string message_of(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  return torch ? torch->what_without_backtrace() : error.what();
}

}  // namespace stiefel::train
