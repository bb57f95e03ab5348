#include "error_text.h"

#include <c10/util/Exception.h>

#include "base/format_number.h"

namespace stiefel::distributed {

std::string error_text(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch ? torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

std::string duration_text(std::chrono::milliseconds time) {
  return base::format_duration(static_cast<double>(time.count()) / 1000);
}

}  // namespace stiefel::distributed
