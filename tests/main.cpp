#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  // The matrices here are small and ctest runs several binaries at once, so one thread each.
  if (!std::getenv("OMP_NUM_THREADS")) at::set_num_threads(1);
  torch::manual_seed(20200426);
  return RUN_ALL_TESTS();
}
