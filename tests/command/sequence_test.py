"""Sequence tasks through the stiefel command: long memory, pixels one at a time, early stopping, resuming.

    python3 sequence_test.py PATH/TO/stiefel
"""
import json
import math
import sys
import unittest

from command_support import CommandTest, read_text


class Sequences(CommandTest):
    def sequence(self, name, *words, epochs=2, task="copying", length=30, status=0):
        return self.run_command("train", "--task", task, "--length", str(length), "--batch", "32", "--epochs", str(epochs),
                                "--device", "cpu", "--out", name, *words, status=status)

    def test_a_unitary_network_remembers_where_a_plain_one_forgets(self):
        length = 100
        baseline = 10 * math.log(8) / (length + 20)  # of the best answer without memory
        self.sequence("unitary", "--model", "urnn-64", "--optim", "cayley-sgd", length=length, epochs=6)
        self.sequence("plain", "--model", "rnn-64", "--optim", "adam", length=length, epochs=6)
        unitary, plain = self.metrics("unitary")[-1], self.metrics("plain")[-1]
        self.assertLess(unitary["test_loss"], 0.5 * baseline)
        self.assertGreater(plain["test_loss"], 0.9 * baseline)
        self.assertLess(unitary["test_error"], plain["test_error"])
        self.assertLess(unitary["defect_max"], 1e-5)
        self.assertNotIn("defect_max", {key for key, value in plain.items() if value is not None})

    def test_every_method_keeps_the_matrix_unitary(self):
        for optim in ("cayley-sgd", "cayley-adam", "cayley-muon", "cayley-closed", "polar-ns"):
            self.sequence(optim, "--model", "urnn-24", "--optim", optim, epochs=1)
            self.assertLess(self.metrics(optim)[-1]["defect_max"], 1e-4, optim)
            self.run_command("check", optim, "--tolerance", "1e-4")
        self.sequence("scaled", "--model", "urnn-24", "--optim", "cayley-closed", "--rms-scaled", epochs=1)
        self.assertNotEqual(self.metrics("scaled")[-1]["train_loss"], self.metrics("cayley-closed")[-1]["train_loss"])
        for rest in ("sgd", "adam", "rmsprop"):
            self.sequence("rest-" + rest, "--model", "ornn-24", "--rest", rest, "--clip", "1", task="adding", epochs=1)
            self.assertLess(self.metrics("rest-" + rest)[-1]["train_loss"], 1, rest)

    def test_a_rate_far_too_large_is_skipped_and_counted(self):
        done = self.sequence("wild", "--model", "ornn-16", "--optim", "polar-ns", "--lr-manifold", "1e6", length=5, epochs=1)
        self.assertIn("skipped so far", done.stdout)
        last = self.metrics("wild")[-1]
        self.assertGreater(last["skipped_steps"], 0)
        self.assertLess(last["defect_max"], 0.5)

    def test_pixels(self):
        words = ["train", "--task", "pixel", "--data", "mnist", "--model", "urnn-8", "--batch", "64", "--validation", "128",
                 "--epochs", "1", "--device", "cpu"]
        self.run_command(*words, "--out", "pixels")
        self.run_command(*words, "--permuted", "--out", "permuted")
        straight, permuted = self.metrics("pixels")[-1], self.metrics("permuted")[-1]
        self.assertEqual(straight["step"], (320 - 128) // 64)  # images that are left, in batches
        self.assertIsNotNone(straight["validation_error"])
        self.assertNotEqual(straight["train_loss"], permuted["train_loss"])
        self.assertIn("test error", self.run_command("eval", "pixels").stdout)
        self.assertEqual(json.loads(read_text(self.root + "/permuted/run.json"))["data"], "permuted-mnist")
        self.run_command("report", "pixels", "permuted", "-o", "pixels.html")

    def test_resumed_after_kill_equals_straight(self):
        cases = {"sgd": ["--optim", "cayley-sgd"], "adam": ["--optim", "cayley-adam", "--rest", "adam"],
                 "scaled": ["--optim", "cayley-closed", "--rms-scaled"]}
        for case, more in cases.items():
            self.expect_resumed_equals_straight(
                case, lambda name: ["train", "--task", "copying", "--length", "30", "--batch", "32", "--epochs", "4",
                                    "--device", "cpu", "--model", "urnn-16", "--out", name, *more], 200)

    def test_early_stopping(self):
        # A rate of nothing learns nothing, so no epoch betters the first.
        done = self.sequence("still", "--model", "urnn-8", "--lr", "0", "--lr-manifold", "0", "--patience", "2", epochs=9)
        self.assertEqual(len(self.metrics("still")), 3)
        self.assertIn("stopping early", done.stdout)
        self.assertEqual(json.loads(read_text(self.root + "/still/run.json"))["status"], "finished")
        self.assertIn("stopped early", self.run_command("resume", "still").stdout)
        self.assertEqual(len(self.metrics("still")), 3)

    def test_unitariness(self):
        text = self.run_command("unitariness", "--task", "copying", "--length", "20", "--model", "urnn-16", "--iterations",
                                "40", "--batch", "16", "--lr-manifold", "0.02").stdout
        rows = [line for line in text.splitlines() if line.startswith("  as printed") or line.startswith("  polished")
                or line.startswith("  Y⁰")]
        self.assertEqual(len(rows), 17)
        numbers = [float(line.split()[-5]) for line in rows]
        printed, released, polished = numbers[:6], numbers[6:11], numbers[11:]
        self.assertGreater(printed[0], 10 * printed[2])  # no round at all leaves a straight line
        self.assertGreater(released[1], 3 * released[2])
        self.assertTrue(all(value < 1e-5 for value in polished))

    def test_errors(self):
        for words, part in ((["--model", "wrn-16-4"], "urnn-N"), (["--optim", "adam"], "rnn-N"),
                            (["--model", "rnn-8"], "plain network"), (["--model", "urnn-0"], "urnn-N"),
                            (["--weights", "omdsm", "--model", "rnn-8", "--optim", "sgd"], "for images"),
                            (["--permuted"], "--permuted"), (["--length", "1"], "--length is 1"),
                            (["--rms-scaled"], "--rms-scaled"), (["--validation", "5"], "--validation"),
                            (["--rest", "lbfgs"], "rmsprop")):
            done = self.run_command("train", "--task", "copying", "--out", "never", *words, status=2)
            self.assertIn(part, done.stderr, words)
        self.assertIn("--task pixel", self.run_command("train", "--model", "urnn-116", "--data", "mnist", status=2).stderr)
        done = self.run_command("train", "--task", "pixels", status=2)
        self.assertIn("copying", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
