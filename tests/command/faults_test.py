"""Makes each system call on files of a short run fail in turn, or kills the command there, and goes on with what is left.

    python3 faults_test.py PATH/TO/stiefel [--whole | --kills N]

Without an option a sample of the faults; --whole: every fault of every call. --kills N: N kills at random moments instead.
"""
import errno
import io
import json
import os
import random
import shutil
import signal
import sys
import time
import unittest
import zipfile

from command_support import CommandTest
from system_faults import KILL, FaultServer, TimedOut, describe, faults_of

WHOLE = "--whole" in sys.argv
KILLS = int(sys.argv[sys.argv.index("--kills") + 1]) if "--kills" in sys.argv else 0
PUBLISHED = "/usr/share/datasets/fashion-mnist"


def archive_of(path):
    """The tensors in a checkpoint, those of the optimizers among them, and the steps that they are after."""
    with open(path, "rb") as file:
        file.readline(), file.readline()
        head = json.loads(file.read(int(file.readline())))
        archive = zipfile.ZipFile(io.BytesIO(file.read()))
    # The optimizers' states are in the order of addresses, which differs from process to process.
    tensors = sorted(archive.read(name) for name in archive.namelist() if "/data/" in name)
    return tensors, head["progress"]["total_steps"]


def chosen(faults):
    """All of them, or 12 of different kinds of calls and files."""
    if WHOLE:
        return faults

    def kind(fault):
        folder, _, name = fault.path.partition("/")
        return fault.kind, fault.name, folder == "data", name.endswith(".tmp"), ".ckpt" in name, "." in name

    kinds = list({kind(fault): fault for fault in faults}.values())
    return random.Random(1).sample(kinds, min(12, len(kinds)))


class Faults(CommandTest):
    IMAGES = (32, 16)  # two steps per epoch

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.traced = FaultServer(cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.traced.close()
        super().tearDownClass()

    def run_traced(self, words, **options):
        return self.traced.run(words, self.env, self.root, **options)

    def run_words(self, epochs=4):
        return self.words("run", "--checkpoint-every", "1", epochs=epochs)

    def newest(self):
        """The steps of the newest checkpoint in the run's folder."""
        folder = self.root + "/run"
        names = os.listdir(folder) if os.path.isdir(folder) else []
        return max((archive_of(f"{folder}/{name}")[1] for name in names if name.endswith(".ckpt")), default=0)

    def result(self):
        """What a finished run has come to."""
        folder = self.root + "/run"
        last = max(name for name in os.listdir(folder) if name.startswith("step-") and name.endswith(".ckpt"))
        with open(folder + "/run.json") as file:
            status = json.load(file)["status"]
        return {"metrics": self.metrics("run"), "status": status, "checkpoint": last,
                "weights": archive_of(f"{folder}/{last}")[0]}

    def start_over(self, copy=None):
        shutil.rmtree(self.root + "/run", ignore_errors=True)
        if copy:
            shutil.copytree(f"{self.root}/{copy}", self.root + "/run")

    def go_on(self):
        """Resumes the run, or starts it where it had not begun; returns the steps that it went on from."""
        before = self.newest()
        if os.path.exists(self.root + "/run/config.toml"):
            done = self.call("resume", "run")
        else:
            done = self.call(*self.run_words())
        if done.returncode != 0:
            return before, f"it cannot be gone on with: status {done.returncode}, {done.stderr}"
        return before, None

    def complaint(self, done, fault, newest_then, expected):
        """What is wrong about a command that met a fault, or nothing."""
        if fault.kind == KILL:
            if done.returncode != -signal.SIGKILL:
                return f"it ended with {done.returncode}, not by the kill"
        elif done.returncode not in (0, 1):
            return f"it ended with {done.returncode}: {done.stderr}"
        elif done.returncode == 1:
            if fault.kind == errno.EINTR and not fault.path.startswith("data/"):  # there zlib opens
                return f"a call that was interrupted was not made again: {done.stderr!r}"
            # The file is named, or the folder that it is in.
            name = os.path.basename(fault.path).removesuffix(".tmp")
            if name not in done.stderr and f"{fault.path.split('/')[0]}" not in done.stderr:
                return f"the message does not name {name}: {done.stderr!r}"
        if done.returncode != 0:
            newest, problem = self.go_on()
            if problem:
                return problem
            if newest < newest_then:
                return f"the newest checkpoint is of step {newest}; before the fault there was one of step {newest_then}"
        result = self.result()
        wrong = [name for name in expected if result[name] != expected[name]]
        return f"different from the undisturbed run: {', '.join(wrong)}" if wrong else None

    def sweep(self, what, faults, words, copy, expected):
        """Runs the command once per fault. All complaints come together, since one cause may show at many calls."""
        faults = chosen(faults)
        started, complaints, ends = time.time(), [], {}
        for fault in faults:
            self.start_over(copy)
            newest = []
            try:
                done = self.run_traced(words, fault=fault, look=lambda: newest.append(self.newest()))
                if not newest:
                    complaints.append(f"{describe(fault)}: the call was not made")
                    continue
                ends[done.returncode] = ends.get(done.returncode, 0) + 1
                wrong = self.complaint(done, fault, newest[0], expected)
            except TimedOut:
                wrong = f"it did not end within {FaultServer.LIMIT} s"
            if wrong:
                complaints.append(f"{describe(fault)}: {wrong}")
                print(complaints[-1], flush=True)
        print(f"{what}: {len(faults)} faults in {time.time() - started:.0f} s; went on by itself {ends.get(0, 0)}, "
              f"said what is wrong {ends.get(1, 0)}, killed {ends.get(-signal.SIGKILL, 0)}; complaints: {len(complaints)}",
              flush=True)
        self.assertEqual(complaints, [], "\n" + "\n".join(complaints))

    @unittest.skipIf(KILLS, "random kills only")
    def test_training(self):
        self.start_over()
        done = self.run_traced(self.run_words())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.sweep("train", faults_of(done.calls), self.run_words(), None, self.result())

    @unittest.skipIf(KILLS, "random kills only")
    def test_resuming(self):
        self.start_over()
        done = self.run_traced(self.run_words())
        expected = self.result()
        # Killed in the third epoch: at the first call after the second epoch's checkpoint.
        at = max(n for n, call in enumerate(done.calls) if call.name == "rename" and "step-000000004" in call.path)
        self.start_over()
        killed = self.run_traced(self.run_words(), fault=next(f for f in faults_of(done.calls)
                                                              if f.number > at + 8 and f.kind == KILL))
        self.assertEqual(killed.returncode, -signal.SIGKILL)
        shutil.copytree(self.root + "/run", self.root + "/half")
        done = self.run_traced(["resume", "run"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.sweep("resume", faults_of(done.calls), ["resume", "run"], "half", expected)

    @unittest.skipIf(KILLS, "random kills only")
    @unittest.skipUnless(os.path.isdir(PUBLISHED), "Debian's dataset-fashion-mnist is not installed")
    def test_fetching_data(self):
        # Only what is published passes the check of `data get`.
        words = ["data", "get", "fashion-mnist", "--from", self.root + "/published"]
        os.symlink(PUBLISHED, self.root + "/published")
        cache = f"{self.root}/.cache/stiefel"
        env = dict(self.env)
        env.pop("XDG_CACHE_HOME", None)
        done = self.traced.run(words, env, self.root)
        self.assertEqual(done.returncode, 0, done.stderr)
        expected = self.files_of(f"{cache}/fashion-mnist")
        self.assertEqual(len(expected), 4)
        # Of the many reads of a file one after the other, the first.
        repeated = {n for n in range(1, len(done.calls)) if done.calls[n][:2] == done.calls[n - 1][:2]}
        faults = chosen([fault for fault in faults_of(done.calls) if fault.number not in repeated])
        started, complaints = time.time(), []
        for fault in faults:
            shutil.rmtree(self.root + "/.cache", ignore_errors=True)
            try:
                done = self.traced.run(words, env, self.root, fault=fault)
            except TimedOut:
                complaints.append(f"{describe(fault)}: it did not end within {FaultServer.LIMIT} s")
                continue
            place = f"{cache}/fashion-mnist"
            wrong = None
            if done.returncode == 0 or os.path.exists(place):
                wrong = None if self.files_of(place) == expected else "what is in the cache is not the data set"
            if done.returncode not in (0, 1, -signal.SIGKILL) or (done.returncode == 1 and not done.stderr.strip()):
                wrong = f"it ended with {done.returncode}: {done.stderr!r}"
            if not wrong and done.returncode != 0:
                again = self.call(*words, env=env)
                if again.returncode != 0 or self.files_of(place) != expected:
                    wrong = f"it cannot be fetched after that: {again.stderr}"
            if wrong:
                complaints.append(f"{describe(fault)}: {wrong}")
                print(complaints[-1], flush=True)
        print(f"data get: {len(faults)} faults in {time.time() - started:.0f} s; complaints: {len(complaints)}", flush=True)
        self.assertEqual(complaints, [], "\n" + "\n".join(complaints))

    def files_of(self, folder):
        return {name: os.path.getsize(f"{folder}/{name}") for name in os.listdir(folder)} if os.path.isdir(folder) else {}

    @unittest.skipUnless(KILLS, "by --kills N")
    def test_random_kills(self):
        words = self.run_words(epochs=8)
        self.start_over()
        started = time.time()
        self.assertEqual(self.run_traced(words).returncode, 0)
        length = time.time() - started
        expected = self.result()
        draw = random.Random(20260 + KILLS)
        kills = resumed = 0
        while kills < KILLS:
            self.start_over()
            done = self.run_traced(words, kill_after=draw.uniform(0, length))
            # Some are killed again while they go on.
            while done.returncode != 0:
                self.assertEqual(done.returncode, -signal.SIGKILL, done.stderr)
                kills += 1
                begun = os.path.exists(self.root + "/run/config.toml")
                resumed += begun
                again = ["resume", "run"] if begun else words
                done = self.run_traced(again, kill_after=draw.uniform(0, 2 * length))
            self.assertEqual(self.result(), expected, f"after {kills} kills")
            print(f"\r{kills} kills", end="", file=sys.stderr, flush=True)
        print(f"\n{kills} kills at random moments, {resumed} of them resumed and the others begun again: all equal to the "
              f"undisturbed run, in {time.time() - started:.0f} s")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *[word for word in sys.argv[2:] if word.startswith("Faults.")]])
