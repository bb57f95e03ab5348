#include <torch/torch.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "distributed/store.h"
#include "on_ranks.h"
#include "other_program.h"
#include "tests/scratch.h"

namespace stiefel::faults_test {

using distributed::JoinOptions;
using distributed::Launch;
using distributed::World;
using std::chrono::seconds;
using test::rank_of_test;
using test::TestRanks;

constexpr int kLost = 42;  // the exit status of a rank that learns that another is lost

/// Where a rank writes what it learned.
std::string file_of(const std::string& folder, int64_t rank) { return folder + "/" + std::to_string(rank); }

std::string read(const std::string& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

void note(const Launch& launch, const std::string& text) {
  std::ofstream(file_of(std::getenv("STIEFEL_TEST_FOLDER"), launch.rank)) << text << std::flush;
}

JoinOptions impatient(const Launch& launch) {
  JoinOptions options;
  options.backend = "gloo";
  options.timeout = seconds(2);
  options.on_lost = [launch](const std::string& what) {
    note(launch, what);
    std::_Exit(kLost);
  };
  return options;
}

/// Sums for ever.
void train(World& world) {
  for (;;) world.start_sum_(torch::ones({10}))->wait();
}

/// Starts the ranks with a folder for what they learn, and expects that all but `lost` end with kLost and
/// that what they learned contains `part`.
void expect_all_learn(int64_t size, int64_t lost, const std::string& part, bool own_store = false) {
  const scratch::Folder folder;
  TestRanks ranks(size, {{"STIEFEL_TEST_FOLDER", folder.path().string()}}, own_store);
  for (int64_t rank = 0; rank < size; ++rank) {
    if (rank == lost) continue;
    EXPECT_EQ(ranks[rank].wait(seconds(60)), kLost) << "rank " << rank;
    EXPECT_NE(read(file_of(folder.path(), rank)).find(part), std::string::npos)
        << "rank " << rank << " says: " << read(file_of(folder.path(), rank));
  }
}

TEST(Faults, a_killed_rank_is_named) {
  if (const auto launch = rank_of_test()) {
    const auto world = join(*launch, impatient(*launch));
    if (launch->rank == 1) ::raise(SIGKILL);
    train(*world);
  }
  expect_all_learn(3, 1, "rank 1 has not been heard of");
}

TEST(Faults, a_stopped_rank_is_named) {
  if (const auto launch = rank_of_test()) {
    const auto world = join(*launch, impatient(*launch));
    if (launch->rank == 2) ::raise(SIGSTOP);
    train(*world);
  }
  expect_all_learn(3, 2, "rank 2 has not been heard of");
}

TEST(Faults, rank_0_with_the_store_is_named_when_it_is_killed) {
  if (const auto launch = rank_of_test()) {
    const auto world = join(*launch, impatient(*launch));
    if (launch->rank == 0) ::raise(SIGKILL);
    train(*world);
  }
  expect_all_learn(3, 0, "rank 0, which holds the store", true);
}

TEST(Faults, rank_0_with_the_store_is_named_when_it_is_stopped) {
  if (const auto launch = rank_of_test()) {
    const auto world = join(*launch, impatient(*launch));
    if (launch->rank == 0) ::raise(SIGSTOP);
    train(*world);
  }
  expect_all_learn(3, 0, "rank 0, which holds the store", true);
}

TEST(Faults, a_rank_that_ends_with_an_error_is_named) {
  for (const bool own_store : {false, true}) {
    if (const auto launch = rank_of_test()) {
      try {
        const auto world = join(*launch, impatient(*launch));
        if (launch->rank == 0) throw std::runtime_error("no memory");
        train(*world);
      } catch (const std::runtime_error&) {
        std::_Exit(1);
      }
    }
    expect_all_learn(3, 0, "rank 0 ended with an error", own_store);
  }
}

// While its main thread computes, or waits for a disk, a rank is not lost.
TEST(Faults, a_busy_rank_is_not_lost) {
  if (const auto launch = rank_of_test()) {
    const auto world = join(*launch, impatient(*launch));
    if (launch->rank == 1) std::this_thread::sleep_for(seconds(3));
    auto a = torch::ones({3});
    world->start_sum_(a)->wait();
    EXPECT_TRUE(a.equal(torch::full({3}, 2.F)));
    return;
  }
  const scratch::Folder folder;
  TestRanks(2, {{"STIEFEL_TEST_FOLDER", folder.path().string()}}).expect_success();
}

// As by Ctrl-Z and fg, or a laptop that is closed.
TEST(Faults, a_run_that_is_suspended_as_a_whole_goes_on) {
  const auto ready = [](const std::string& folder, int64_t rank) { return file_of(folder, rank); };
  if (const auto launch = rank_of_test()) {
    const auto world = join(*launch, impatient(*launch));
    world->barrier();
    note(*launch, "ready");
    // Until the test says that they have been continued.
    while (read(file_of(std::getenv("STIEFEL_TEST_FOLDER"), 100)).empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::this_thread::sleep_for(seconds(1));
    world->start_sum_(torch::ones({3}))->wait();
    return;
  }
  const scratch::Folder folder;
  TestRanks ranks(2, {{"STIEFEL_TEST_FOLDER", folder.path().string()}});
  for (int64_t rank = 0; rank < 2; ++rank) {
    while (read(ready(folder.path(), rank)).empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  for (int64_t rank = 0; rank < 2; ++rank) ranks[rank].send(SIGSTOP);
  std::this_thread::sleep_for(seconds(3));
  for (int64_t rank = 0; rank < 2; ++rank) ranks[rank].send(SIGCONT);
  std::ofstream(file_of(folder.path(), 100)) << "go" << std::flush;
  ranks.expect_success();
}

/// Joins, and ends with kLost where that throws an error, which is noted.
void expect_refusal(const Launch& launch, const JoinOptions& options) {
  try {
    join(launch, options);
  } catch (const std::exception& error) {
    note(launch, error.what());
    std::_Exit(kLost);
  }
}

TEST(Faults, a_rank_that_does_not_come_is_named) {
  if (const auto launch = rank_of_test()) {
    if (launch->rank == 1) std::_Exit(0);
    auto options = impatient(*launch);
    options.timeout = seconds(1);
    return expect_refusal(*launch, options);
  }
  expect_all_learn(3, 1, "rank 1 of 3 did not come to 127.0.0.1:", true);
}

TEST(Faults, different_numbers_of_ranks_are_named) {
  if (auto launch = rank_of_test()) {
    if (launch->rank == 1) launch->size = 4;
    return expect_refusal(*launch, impatient(*launch));
  }
  expect_all_learn(3, -1, "the ranks differ in WORLD_SIZE: rank ");
}

TEST(Faults, a_rank_that_is_there_twice_is_named) {
  if (auto launch = rank_of_test()) {
    auto options = impatient(*launch);
    if (launch->rank == 2) {
      launch->rank = 1;
      try {
        join(*launch, options);
      } catch (const std::exception&) {
      }
      std::_Exit(0);
    }
    return expect_refusal(*launch, options);
  }
  expect_all_learn(3, 2, "two processes are rank 1 at 127.0.0.1:");
}

TEST(Faults, a_rank_that_comes_twice_and_too_late_ends_alone) {
  if (auto launch = rank_of_test()) {
    // torchrun counts what it starts again per machine: they meet at rank 0 all the same.
    launch->attempt = launch->rank;
    const auto world = join(*launch, impatient(*launch));
    world->barrier();
    if (launch->rank == 1) {
      try {
        join(*launch, impatient(*launch));
        ADD_FAILURE() << "no error";
      } catch (const distributed::SharedError&) {
        ADD_FAILURE() << "nobody would report it";
      } catch (const std::runtime_error& error) {
        EXPECT_EQ(std::string(error.what()).find("two processes are rank 1 at 127.0.0.1:"), 0U)
            << error.what();
      }
    }
    world->barrier();
    return;
  }
  const scratch::Folder folder;
  TestRanks(2, {{"STIEFEL_TEST_FOLDER", folder.path().string()}}, true).expect_success();
}

TEST(Faults, different_versions_are_named) {
  if (const auto launch = rank_of_test()) {
    auto options = impatient(*launch);
    options.identity = launch->rank == 2 ? "LibTorch: 2.11" : "LibTorch: 1.13";
    expect_refusal(*launch, options);
  }
  expect_all_learn(3, -1, "rank 2 has 'LibTorch: 2.11' where rank 0 has 'LibTorch: 1.13'", true);
}

TEST(Faults, a_taken_port_is_named) {
  const distributed::LauncherStore other;
  auto launch = other.launch(0, 2);
  launch.launcher_store = false;
  try {
    join(launch, {});
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).find("port " + std::to_string(launch.port) + " cannot be opened"), 0U)
        << error.what();
  }
}

TEST(Faults, a_place_where_nothing_answers_is_named) {
  Launch launch;
  {
    launch = distributed::LauncherStore().launch(1, 2);  // a port that was free a moment ago
  }
  JoinOptions options;
  options.timeout = std::chrono::milliseconds(200);
  try {
    join(launch, options);
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(std::string(error.what()).find("no store answers at " + launch.meeting_place()), 0U)
        << error.what();
  }
}

/// The error of a rank that joins a launch.
std::string error_of_joining(const Launch& launch, std::chrono::milliseconds timeout) {
  JoinOptions options;
  options.timeout = timeout;
  try {
    join(launch, options);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "no error";
}

/// Another rank than 0, whose store's port another program has.
Launch launch_at(const test::OtherProgram& program) {
  Launch launch;
  launch.rank = 1;
  launch.size = 2;
  launch.address = "127.0.0.1";
  launch.port = program.port();
  return launch;
}

TEST(Faults, a_port_of_another_program_that_says_nothing_is_named) {
  const test::OtherProgram silent("");
  auto launch = launch_at(silent);
  EXPECT_EQ(error_of_joining(launch, std::chrono::milliseconds(500))
                .find("rank 0's store at " + launch.meeting_place() + " has not answered for "),
            0U);
  launch.launcher_store = true;
  EXPECT_EQ(error_of_joining(launch, std::chrono::milliseconds(500))
                .find("the launcher's store at " + launch.meeting_place() + " has not answered for "),
            0U);
}

TEST(Faults, a_port_of_another_program_that_answers_is_named) {
  const test::OtherProgram other("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
  const auto launch = launch_at(other);
  const auto error = error_of_joining(launch, seconds(1));
  EXPECT_EQ(error.find("the ranks' store at " + launch.meeting_place() + " does not answer as one"), 0U)
      << error;
}

TEST(Faults, a_port_of_another_program_that_speaks_first_is_named) {
  const test::OtherProgram other("", "SSH-2.0-OpenSSH_9.2\r\n");
  auto launch = launch_at(other);
  for (const bool of_launcher : {false, true}) {
    launch.launcher_store = of_launcher;
    const auto error = error_of_joining(launch, seconds(1));
    EXPECT_EQ(error.find("the ranks' store at " + launch.meeting_place() + " does not answer as one"), 0U)
        << error;
    EXPECT_NE(error.find("before it is asked it says 'SSH-2.0-OpenSSH_9.2"), std::string::npos) << error;
  }
}

// Before the heartbeat begins, which would notice it.
TEST(Faults, rank_0_that_is_stopped_while_the_others_come_is_named) {
  if (const auto launch = rank_of_test()) {
    if (launch->rank > 0) return expect_refusal(*launch, impatient(*launch));
    const auto store = open_store(*launch, seconds(1));
    ::raise(SIGSTOP);
  }
  expect_all_learn(3, 0, "rank 0's store at 127.0.0.1:", true);
}

TEST(Faults, an_address_that_is_not_found_is_named) {
  for (const int64_t rank : {0, 1}) {
    Launch launch = distributed::LauncherStore().launch(rank, 2);
    launch.launcher_store = false;
    launch.address = "rank-0.invalid";
    const auto error = error_of_joining(launch, std::chrono::milliseconds(200));
    EXPECT_EQ(error.find("MASTER_ADDR is 'rank-0.invalid', a host whose address is not found ("), 0U)
        << error;
  }
}

TEST(Faults, a_backend_that_is_not_there_is_refused) {
  Launch launch;
  for (const char* backend : {"nccl", "mpi", ""}) {
    JoinOptions options;
    options.backend = backend;
    EXPECT_THROW(join(launch, options), std::invalid_argument);
  }
}

}  // namespace stiefel::faults_test
