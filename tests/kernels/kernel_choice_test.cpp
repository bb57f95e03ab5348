#include "src/cuda/kernel_choice.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>
#include <utility>

namespace kernel_choice_test {

using namespace stiefel::cuda;

TEST(KernelChoice, TakesWhatTheCardCanRun) {
  EXPECT_EQ(choose_kernels(7, 5, "auto").kernels, MixedKernels::kNone);
  EXPECT_EQ(choose_kernels(9, 0, "auto").kernels, MixedKernels::kHopper);
  for (const auto& [major, minor] : {std::pair{8, 0}, {8, 9}, {10, 0}, {12, 0}}) {
    const auto choice = choose_kernels(major, minor, "auto");
    EXPECT_EQ(choice.kernels, MixedKernels::kAmpere) << major << "." << minor;
    EXPECT_NE(choice.reason.find("since Ampere"), std::string::npos);
  }
  EXPECT_NE(choose_kernels(7, 5, "auto").reason.find("need compute capability 8.0, this card has 7.5"),
            std::string::npos);
}

TEST(KernelChoice, FollowsAWishThatTheCardCanRun) {
  EXPECT_EQ(choose_kernels(9, 0, "ampere").kernels, MixedKernels::kAmpere);
  EXPECT_EQ(choose_kernels(9, 0, "none").kernels, MixedKernels::kNone);
  EXPECT_EQ(choose_kernels(9, 0, "hopper").kernels, MixedKernels::kHopper);
}

TEST(KernelChoice, RefusesAWishThatItCannotAndSaysWhatWouldDo) {
  const auto error = [](int major, int minor, const std::string& wanted) -> std::string {
    try {
      choose_kernels(major, minor, wanted);
    } catch (const std::invalid_argument& refusal) {
      return refusal.what();
    }
    return {};
  };
  EXPECT_NE(error(8, 6, "hopper").find("8.6 and those kernels are for 9.0"), std::string::npos);
  EXPECT_NE(error(10, 0, "hopper").find("10.0 and those kernels are for 9.0"), std::string::npos);
  EXPECT_NE(error(7, 5, "ampere").find("7.5 and those kernels are for 8.0"), std::string::npos);
  EXPECT_NE(error(9, 0, "turing").find("'turing', which is none of auto, hopper, ampere and none"),
            std::string::npos);
}

TEST(KernelChoice, ComesFromTheEnvironment) {
  ::unsetenv("STIEFEL_KERNELS");
  EXPECT_EQ(wanted_kernels(), "auto");
  ::setenv("STIEFEL_KERNELS", "", 1);
  EXPECT_EQ(wanted_kernels(), "auto");
  ::setenv("STIEFEL_KERNELS", "ampere", 1);
  EXPECT_EQ(wanted_kernels(), "ampere");
  ::unsetenv("STIEFEL_KERNELS");
}

}  // namespace kernel_choice_test
