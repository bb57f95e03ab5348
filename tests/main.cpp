#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>

namespace {

/// Every test draws the same random numbers, whichever tests ran before it.
class SeedPerTest : public ::testing::EmptyTestEventListener {
  void OnTestStart(const ::testing::TestInfo&) override { torch::manual_seed(20200426); }
};

/// Whether all tests that were chosen were skipped, as those of a GPU are where there is none.
bool skipped_all(const ::testing::UnitTest& tests) {
  return tests.skipped_test_count() > 0 && tests.skipped_test_count() == tests.test_to_run_count();
}

constexpr int kSkipped = 77;  // ctest's SKIP_RETURN_CODE in CMakeLists.txt

}  // namespace

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  // The matrices here are small and ctest runs several binaries at once, so one thread each.
  if (!std::getenv("OMP_NUM_THREADS")) at::set_num_threads(1);
  auto& tests = *::testing::UnitTest::GetInstance();
  tests.listeners().Append(new SeedPerTest);  // GoogleTest deletes it
  const int result = RUN_ALL_TESTS();
  return result == 0 && skipped_all(tests) ? kSkipped : result;
}
