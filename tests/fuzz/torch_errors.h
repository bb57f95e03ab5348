#pragma once

#include <c10/util/Exception.h>

#include "errors.h"

namespace fuzz {

/// Whether `act` went through. The library's own errors are c10::Error, and none of them is LibTorch's word
/// for a bug in LibTorch; where LibTorch's own code reads, it may be.
template <class Act>
bool goes_through(const Act& act, bool own = true) {
  try {
    act();
    return true;
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    check_message(message);
    require(!own || message.find("INTERNAL ASSERT") == std::string::npos,
            "an internal error of LibTorch: " + message);
    return false;
  } catch (const std::exception& error) {
    broken(std::string("an undocumented type of error: ") + error.what());
  }
}

}  // namespace fuzz
