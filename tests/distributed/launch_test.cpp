#include "distributed/launch.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace stiefel::launch_test {

using distributed::Environment;
using distributed::read_launch;

Environment whole() {
  return {{"RANK", "3"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "2"},
          {"MASTER_ADDR", "node-1.cluster"},
          {"MASTER_PORT", "29500"}};
}

std::string error_of(const Environment& environment) {
  try {
    read_launch(environment);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

std::string error_with(const std::string& name, const std::string& value) {
  auto environment = whole();
  environment[name] = value;
  return error_of(environment);
}

std::string error_without(const std::string& name) {
  auto environment = whole();
  environment.erase(name);
  return error_of(environment);
}

TEST(Launch, reads_what_a_launcher_sets) {
  const auto launch = read_launch(whole());
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 8);
  EXPECT_EQ(launch->local_rank, 1);
  EXPECT_EQ(launch->address, "node-1.cluster");
  EXPECT_EQ(launch->port, 29500);
  EXPECT_FALSE(launch->launcher_store);
  EXPECT_EQ(launch->attempt, 0);
  EXPECT_EQ(launch->meeting_place(), "node-1.cluster:29500");
}

TEST(Launch, is_none_without_a_rank) {
  EXPECT_FALSE(read_launch({}));
  // Images of clusters set these for every process.
  EXPECT_FALSE(read_launch({{"MASTER_ADDR", "x"}, {"MASTER_PORT", "no number"}}));
}

TEST(Launch, comes_back_from_its_variables) {
  auto environment = whole();
  environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  environment["TORCHELASTIC_RESTART_COUNT"] = "2";
  environment.erase("LOCAL_WORLD_SIZE");
  EXPECT_EQ(variables_of(*read_launch(environment)), environment);
}

// As a job of one process per machine is started by Kubernetes.
TEST(Launch, takes_the_first_gpu_where_no_local_rank_is_set) {
  auto environment = whole();
  environment.erase("LOCAL_RANK");
  environment.erase("LOCAL_WORLD_SIZE");
  EXPECT_EQ(read_launch(environment)->local_rank, 0);
}

TEST(Launch, names_the_variable_that_is_missing) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
    const auto error = error_without(name);
    EXPECT_EQ(error.find(std::string(name) + " is not set, though "), 0U) << error;
    EXPECT_NE(error.find("torchrun"), std::string::npos) << error;
  }
}

TEST(Launch, names_a_wrong_number_and_its_bounds) {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT",
                           "TORCHELASTIC_RESTART_COUNT"}) {
    for (const char* value : {"", " ", "x", "-1", "+1", "0x1", "1 ", " 1", "1.0", "1e0", "９",
                              "99999999999999999999999999", "9223372036854775808"}) {
      const auto error = error_with(name, value);
      EXPECT_EQ(error.find(std::string(name) + " is '" + value + "', but must be "), 0U)
          << name << ": " << error;
    }
  }
  EXPECT_EQ(error_with("RANK", "8").find("RANK is '8', but must be from 0 to WORLD_SIZE − 1 = 7"), 0U);
  EXPECT_NE(error_with("WORLD_SIZE", "0"), "");
  EXPECT_NE(error_with("WORLD_SIZE", "3"), "") << "rank 3 of 3";
  EXPECT_NE(error_with("MASTER_PORT", "0"), "");
  EXPECT_NE(error_with("MASTER_PORT", "65536"), "");
  EXPECT_EQ(error_with("MASTER_PORT", "65535"), "");
}

TEST(Launch, names_contradictions) {
  EXPECT_EQ(
      error_with("LOCAL_RANK", "2").find("LOCAL_RANK is '2', but must be from 0 to LOCAL_WORLD_SIZE − 1 = 1"),
      0U);
  EXPECT_EQ(error_with("LOCAL_WORLD_SIZE", "9")
                .find("LOCAL_WORLD_SIZE is '9', but must be from 1 to WORLD_SIZE = 8"),
            0U);
  EXPECT_EQ(error_with("TORCHELASTIC_USE_AGENT_STORE", "True").find("TORCHELASTIC_RESTART_COUNT is not set"),
            0U);
  EXPECT_EQ(error_with("TORCHELASTIC_USE_AGENT_STORE", "yes").find("TORCHELASTIC_USE_AGENT_STORE is 'yes'"),
            0U);
}

TEST(Launch, takes_names_and_addresses_alone) {
  for (const char* value : {"localhost", "10.0.0.1", "::1", "fe80::1%eth0", "a_b-c.d"}) {
    EXPECT_EQ(error_with("MASTER_ADDR", value), "");
  }
  for (const char* value : {"", "a b", "host:29500", "tcp://host", "host/", "a\nb", "ä", "[::1]"}) {
    EXPECT_NE(error_with("MASTER_ADDR", value), "") << value;
  }
  EXPECT_NE(error_with("MASTER_ADDR", "host:29500").find("without a port"), std::string::npos);
}

// What comes from outside is shown so that a terminal does not act on it.
TEST(Launch, shows_values_as_escapes) {
  EXPECT_EQ(error_with("RANK", "1\x1b[2J").find('\x1b'), std::string::npos);
}

}  // namespace stiefel::launch_test
