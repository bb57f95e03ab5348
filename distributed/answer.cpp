#include "answer.h"

#include <string>

#include "error_text.h"

namespace stiefel::distributed {

namespace {

std::string text_of(const Launch& launch, std::chrono::milliseconds waited) {
  const auto silence = launch.meeting_place() + " has not answered for " + duration_text(waited) + "; ";
  if (launch.launcher_store) {
    return "the launcher's store at " + silence +
           "the launcher is stopped or cannot be reached, or another program has that port: end the "
           "launcher, "
           "and start it again";
  }
  return "rank 0's store at " + silence +
         "another program has that port, or rank 0 is stopped or cannot be reached: "
         "choose another MASTER_PORT for all ranks, or end rank 0 and start all ranks again";
}

}  // namespace

NoAnswer::NoAnswer(const Launch& launch, std::chrono::milliseconds waited)
    : std::runtime_error(text_of(launch, waited)) {}

}  // namespace stiefel::distributed
