"""Kills a run at every one of its file operations, and goes on with what is left.

    python3 killed_run_test.py PATH/TO/stiefel
"""
import hashlib
import json
import os
import shutil
import sys
import unittest

from command_support import STIEFEL, CommandTest, read_text, traced
from system_calls import run_and_look


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def steps_of(path):
    """The steps that a checkpoint was written after, from its header."""
    with open(path, "rb") as file:
        file.readline(), file.readline()
        return json.loads(file.read(int(file.readline())))["progress"]["total_steps"]


class KilledRun(CommandTest):
    # The first epoch is recorded and not written, the second writes the best and a numbered checkpoint, the third ends.
    WORDS = ("--checkpoint-every", "2")

    def states(self, name):
        """Trains, and returns the names of copies of the folder, one for each state that a kill can leave it in, and the
        files in each. States that differ only in how much of a temporary file is written are one."""
        folder = f"{self.root}/{name}"
        seen, kept = set(), []

        def look():
            if not os.path.isdir(folder):
                return
            names = sorted(os.listdir(folder))
            whole = {n: read_bytes(f"{folder}/{n}") for n in names if not n.endswith(".tmp")}
            content = hashlib.sha256()
            for n in names:
                content.update(n.encode() + b"\0" + whole.get(n, b""))
            if content.digest() in seen:
                return
            seen.add(content.digest())
            copy = f"{self.root}/{name}-{len(kept)}"
            shutil.copytree(folder, copy)
            kept.append((os.path.basename(copy), names))

        status = run_and_look([STIEFEL, *self.words(name, *self.WORDS, epochs=3)], look, traced(self.env), self.root)
        self.assertEqual(status, 0)
        look()
        return kept

    def test_every_state_can_be_gone_on_with(self):
        states = self.states("whole")
        # Nothing yet; then with and without a temporary file: config, record and two of metrics at the start, metrics
        # and record of three epochs, two checkpoints (three where the last epoch is the best), the last record.
        self.assertGreater(len(states), 30)
        metrics = self.metrics("whole")
        weights = self.weights("whole")
        stages = set()
        for name, names in states:
            with self.subTest(files=names):
                # The one with the most steps; a numbered one where the best has as many.
                checkpoints = [(steps_of(f"{self.root}/{name}/{n}"), n) for n in names if n.endswith(".ckpt")]
                newest = max(checkpoints, default=None)
                if "config.toml" not in names:
                    self.assertIn("stiefel train --out", self.run_command("resume", name, status=1).stderr)
                    self.train(name, *self.WORDS, epochs=3)
                    stage = "not begun"
                else:
                    self.assertIn("stiefel resume", self.train(name, *self.WORDS, epochs=3, status=1).stderr)
                    finished = ("run.json" in names and
                                json.loads(read_text(f"{self.root}/{name}/run.json"))["status"] == "finished")
                    said = self.run_command("resume", name).stdout
                    if finished:
                        stage = "is finished"
                    elif newest:
                        stage = f"going on from {newest[1]}: epoch {newest[0] // 20 + 1}, step 0"
                    else:
                        stage = "starting from the beginning"
                    self.assertIn(stage, said)
                self.assertEqual(self.metrics(name), metrics)
                if stage not in stages:
                    self.assertTrue(self.weights(name) == weights)
                stages.add(stage)
                self.assertEqual(json.loads(read_text(f"{self.root}/{name}/run.json"))["status"], "finished")
        self.assertLessEqual({"not begun", "starting from the beginning", "going on from best.ckpt: epoch 3, step 0",
                              "going on from step-000000040.ckpt: epoch 3, step 0",
                              "going on from step-000000060.ckpt: epoch 4, step 0", "is finished"}, stages)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
