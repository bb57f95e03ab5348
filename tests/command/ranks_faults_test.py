"""Faults of several processes of the stiefel command: ranks that are killed or stopped, launchers that start them
again, and launches that cannot work.

    python3 ranks_faults_test.py PATH/TO/stiefel
"""
import glob
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

from command_support import STIEFEL, read_text
from ranks_support import LIMIT, RanksTest, free_port

TIMEOUT = 2  # seconds: --timeout of the runs that lose a rank
# After it every rank has ended: a twentieth of it per look, ends that wait for each other, a busy machine.
WITHIN = 9 * TIMEOUT

EPOCHS = 5  # of 100 steps: a rank is lost after the first of them, and well before the last
# Sums are rounded in another order by each number of processes, and 500 steps make up to 1e-5 of that; an epoch
# that is lost or repeated makes 1e-2 and more.
ROUNDING = 1e-4

TORCHRUN = "/usr/bin/torchrun"  # Debian's, of the LibTorch that the command is linked to
MANUAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/distributed.md")


def parent_of(process):
    """0 for a process that is gone."""
    try:
        return int(read_text(f"/proc/{process}/stat").rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def descendants(process):
    parents = {int(path.split("/")[2]): 0 for path in glob.glob("/proc/[0-9]*")}
    for child in parents:
        parents[child] = parent_of(child)
    found, new = [], [process]
    while new:
        new = [child for child, parent in parents.items() if parent in new]
        found += new
    return found


def variable_of(process, name):
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            settings = file.read().split(b"\0")
        if not os.path.samefile(f"/proc/{process}/exe", STIEFEL):
            return None
    except OSError:
        return None
    return next((entry.split(b"=", 1)[1].decode() for entry in settings if entry.startswith(name.encode() + b"=")), None)


def has_torchrun():
    try:
        return subprocess.run([TORCHRUN, "--help"], capture_output=True).returncode == 0
    except OSError:
        return False


def documented_torchrun():
    """What docs/distributed.md types before `stiefel train` on Debian 12."""
    (line,) = re.findall(r"^    torchrun (.*) stiefel train .*# Debian 12$", read_text(MANUAL), re.MULTILINE)
    return [TORCHRUN, *line.split()]


class Faults(RanksTest):
    def rank_of(self, starter, rank):
        """The process of a rank that a process has started, when it is there."""
        found = []

        def look():
            found[:] = [child for child in descendants(starter.pid) if variable_of(child, "RANK") == str(rank)]
            return found

        self.wait_until(look, f"rank {rank} was started")
        return found[0]

    def start_one(self, words, env=None):
        process = subprocess.Popen(words, cwd=self.root, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=env or self.env)
        self.addCleanup(self.end, process)
        return process

    def long_run(self, name):
        return [*self.copying(name, epochs=EPOCHS), "--checkpoint-every", "1", "--timeout", str(TIMEOUT)]

    def expect_goes_on(self, name):
        """Whatever was lost, the last checkpoint is good: the run ends as one that nothing happened to."""
        self.run_command("resume", name)
        self.expect_undisturbed(name)

    def expect_undisturbed(self, name):
        if not os.path.exists(self.root + "/undisturbed"):
            self.run_command(*self.copying("undisturbed", epochs=EPOCHS))
            self.run_command(*self.copying("shorter", epochs=EPOCHS - 1))
            self.assertGreater(self.far("shorter", "undisturbed"), 10 * ROUNDING)
        self.assertLessEqual(self.far(name, "undisturbed"), ROUNDING)
        self.expect_same_metrics(name, "undisturbed", ROUNDING)

    def test_processes_train_what_one_does(self):
        self.run_command(*self.copying("one"))
        done = self.run_command(*self.copying("three"), "--processes", "3", timeout=LIMIT)
        self.assertIn("done; see it with: stiefel report three", done.stdout)
        self.assertLessEqual(self.far("three", "one"), 1e-6)
        record = json.loads(read_text(self.root + "/three/run.json"))
        self.assertEqual((record["processes"], record["backend"]), (3, "gloo"))

    def test_a_lost_rank_ends_the_run_and_is_named(self):
        for rank, fault, said in ((1, signal.SIGKILL, "rank 1 was ended by signal 9"),
                                  (0, signal.SIGSTOP, "rank 0 has not been heard of for")):
            with self.subTest(rank=rank, fault=fault.name):
                name = f"lost-{rank}-{fault.name}"
                starter = self.start_one([STIEFEL, *self.long_run(name), "--processes", "3"])
                there = self.checkpoint(name, 100)
                self.wait_until(lambda: os.path.exists(there) or starter.poll() is not None, "a checkpoint")
                processes = [self.rank_of(starter, each) for each in range(3)]
                os.kill(processes[rank], fault)
                began = time.time()
                _, errors = starter.communicate(timeout=LIMIT)
                self.assertLess(time.time() - began, WITHIN)
                self.assertNotEqual(starter.returncode, 0)
                self.assertIn(said, errors)
                self.assertIn(f"go on from the last checkpoint with: stiefel resume {name} --processes 3", errors)
                for process in processes:
                    self.assertEqual(parent_of(process), 0, f"a rank is still there; {errors}")
        self.expect_goes_on(name)

    def test_a_lost_rank_of_a_launcher_is_named_by_all_others(self):
        for lost, fault in ((0, signal.SIGKILL), (2, signal.SIGSTOP)):
            with self.subTest(rank=lost, fault=fault.name):
                name = f"launched-{lost}-{fault.name}"
                ranks = self.start(3, *self.long_run(name))
                there = self.checkpoint(name, 100)
                self.wait_until(lambda: os.path.exists(there) or ranks[0].poll() is not None, "a checkpoint")
                ranks[lost].send_signal(fault)
                began = time.time()
                for rank, process in enumerate(ranks):
                    if rank == lost:
                        continue
                    _, errors = process.communicate(timeout=LIMIT)
                    self.assertNotEqual(process.returncode, 0)
                    self.assertIn(f"rank {rank}: stiefel: rank {lost}", errors)
                    # c10d's own lines would come first.
                    self.assertTrue(errors.startswith("rank "), errors)
                self.assertLess(time.time() - began, WITHIN)
                ranks[lost].kill()
                ranks[lost].wait()
        self.expect_goes_on("launched-0-SIGKILL")

    def test_ranks_end_with_the_process_that_started_them(self):
        starter = self.start_one([STIEFEL, *self.copying("orphans", epochs=100000), "--timeout", str(TIMEOUT),
                                  "--processes", "2"])
        self.wait_until(lambda: os.path.exists(self.root + "/orphans/run.json"), "the run's folder")
        processes = [self.rank_of(starter, rank) for rank in range(2)]
        starter.kill()
        starter.wait()
        self.wait_until(lambda: all(variable_of(process, "RANK") is None for process in processes),
                        "the ranks have ended", WITHIN)

    @unittest.skipUnless(has_torchrun(), f"{TORCHRUN} does not run")
    def test_torchrun_starts_again_from_the_last_checkpoint(self):
        name = "restarted"
        words = documented_torchrun()
        words[1:1] = ["--master_port", str(free_port()), "--max_restarts", "2", "--monitor_interval", "0.1"]
        launcher = self.start_one([*words, "stiefel", *self.long_run(name)],
                                  env=dict(self.env, PATH=os.path.dirname(STIEFEL) + ":" + self.env["PATH"]))
        there = self.checkpoint(name, 100)
        self.wait_until(lambda: os.path.exists(there) or launcher.poll() is not None, "a checkpoint")
        os.kill(self.rank_of(launcher, 1), signal.SIGKILL)
        said, errors = launcher.communicate(timeout=LIMIT)
        self.assertEqual(launcher.returncode, 0, said + errors)
        self.assertRegex(said, r"going on from step-\d+\.ckpt")
        self.expect_undisturbed(name)
        self.assertEqual(json.loads(read_text(f"{self.root}/{name}/run.json"))["status"], "finished")

    def launched(self, **variables):
        """The error of a train command in these variables of a launcher, before any work: the one line that it
        writes."""
        launch = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(free_port()), **variables}
        env = dict(self.env, **{name: value for name, value in launch.items() if value is not None})
        done = subprocess.run([STIEFEL, *self.copying("never"), "--timeout", "1"], cwd=self.root, text=True,
                              capture_output=True, env=env, timeout=LIMIT)
        self.assertIn(done.returncode, (1, 2), done.stderr)
        self.assertFalse(os.path.exists(self.root + "/never"))
        self.assertRegex(done.stderr, r"\A(rank \d+: )?stiefel: .*\n\Z")
        return done.stderr

    def test_a_launch_that_cannot_work_is_an_error_before_any_work(self):
        self.assertIn("MASTER_PORT is not set", self.launched(MASTER_PORT=None))
        self.assertIn("WORLD_SIZE is 'many'", self.launched(WORLD_SIZE="many"))
        self.assertIn("RANK is '7'", self.launched(RANK="7"))
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.assertIn(f"port {port} cannot be opened", self.launched(MASTER_PORT=str(port)))
            # The same port, seen by a rank that only connects: nothing there ever answers.
            self.assertIn(f"rank 0's store at 127.0.0.1:{port} has not answered for",
                          self.launched(MASTER_PORT=str(port), RANK="1", LOCAL_RANK="1", WORLD_SIZE="2"))
        self.assertIn("MASTER_ADDR is 'rank-0.invalid'", self.launched(MASTER_ADDR="rank-0.invalid"))
        self.assertIn("rank 1 of 2 did not come to 127.0.0.1", self.launched(WORLD_SIZE="2"))

    def test_numbers_of_processes_that_a_run_cannot_have_are_errors_with_remedies(self):
        self.run_command(*self.copying("fixed", batch=32))
        done = self.run_command("resume", "fixed", "--processes", "3", status=2)
        self.assertIn("the run's batch is 32, which 3 processes cannot share evenly; go on with a number of processes "
                      "that divides it, such as 2 or 4", done.stderr)
        done = self.run_command(*self.copying("never"), "--backend", "nccl", status=2)
        self.assertIn("--backend is nccl, but this is one process", done.stderr)
        self.assertFalse(os.path.exists(self.root + "/never"))

    def test_ranks_with_different_options_are_an_error_before_any_work(self):
        port = str(free_port())
        ranks = []
        for rank, seed in enumerate(("1", "2")):
            env = dict(self.env, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, RANK=str(rank),
                       LOCAL_RANK=str(rank))
            process = subprocess.Popen([STIEFEL, *self.copying("different"), "--seed", seed], cwd=self.root, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
            self.addCleanup(self.end, process)
            ranks.append(process)
        for process in ranks:
            _, errors = process.communicate(timeout=LIMIT)
            self.assertNotEqual(process.returncode, 0)
            if process is ranks[0]:
                self.assertIn("the ranks differ in the options: rank 1 has 'seed = 2' where rank 0 has 'seed = 1'", errors)
        self.assertFalse(os.path.exists(self.root + "/different"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
