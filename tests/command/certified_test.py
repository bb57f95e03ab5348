"""Certified networks through the stiefel command: training, certificates, attacks, the report.

    python3 certified_test.py PATH/TO/stiefel
"""
import csv
import re
import sys
import unittest

from command_support import CommandTest, read_text


class Certified(CommandTest):
    def train_small(self, name, *words, status=0):
        return self.run_command("train", "--data", "mnist", "--batch", "16", "--epochs", "2", "--device", "cpu", "--out", name,
                                *words, status=status)

    def rows(self, path):
        with open(self.root + "/" + path, newline="") as file:
            return list(csv.DictReader(file))

    def accuracies(self, text):
        """The table's rows: radius → percentages."""
        found = re.findall(r"^(0 \(clean\)|\d+/\d+|[\d.]+)((?: +[\d.]+)+)$", text, re.MULTILINE)
        return {radius: [float(value) for value in values.split()] for radius, values in found}

    def test_what_is_certified(self):
        for model in ("lip-mlp-2x32", "lip-2-16"):
            self.train_small(model, "--model", model, "--optim", "cayley-muon", "--lr-manifold", "0.02")
            done = self.run_command("eval", model, "--device", "cpu", "--certify", "36/255,0.5,4", "--attack", "36/255",
                                    "--attack-steps", "5", "--attack-restarts", "2")
            table = self.accuracies(done.stdout)
            self.assertEqual(list(table), ["0 (clean)", "36/255", "0.5", "4"], done.stdout)
            clean, near, far = table["0 (clean)"][0], table["36/255"], table["4"]
            self.assertGreater(clean, 80)
            self.assertGreaterEqual(clean, near[0])
            self.assertLessEqual(near[0], near[1], "what is certified survives the attack")
            self.assertLess(far[0], near[0])
            error = float(re.search(r"test error ([\d.]+) %", done.stdout)[1])
            self.assertAlmostEqual(clean, 100 - error, delta=1.01, msg="float64 against float32 on 100 images")
            rows = self.rows(model + "/certified.csv")
            self.assertEqual([int(row["image"]) for row in rows], list(range(100)))
            right = [row for row in rows if row["label"] == row["predicted"]]
            self.assertAlmostEqual(clean, len(right))
            self.assertAlmostEqual(near[0], sum(float(row["radius"]) > 36 / 255 for row in right))
            factor = float(re.search(r"Lipschitz constant before the scores: ([\d.]+)", done.stdout)[1])
            for row in rows:  # ‖w_i − w_j‖ is √2 for orthonormal rows
                self.assertAlmostEqual(float(row["radius"]), float(row["margin"]) / (factor * 2 ** 0.5), delta=1e-5)

    def test_a_report_shows_it(self):
        self.train_small("shown", "--model", "lip-mlp-1x16", "--optim", "cayley-sgd")
        self.run_command("report", "shown", "-o", "before.html")
        drawn = 'id="chart-certified"'
        self.assertFalse(drawn in read_text(self.root + "/before.html"))
        self.run_command("eval", "shown", "--certify", "36/255", "--images", "40", "--out", "elsewhere.csv")
        self.assertEqual(len(self.rows("elsewhere.csv")), 40)
        self.run_command("eval", "shown", "--certify", "36/255")
        self.run_command("report", "shown", "-o", "after.html")
        self.assertTrue(drawn in read_text(self.root + "/after.html"))

    def test_any_image_network_can_be_attacked(self):
        self.train_small("plain", "--model", "small", "--optim", "sgd")
        done = self.run_command("eval", "plain", "--attack", "0.01,3", "--attack-steps", "10", "--images", "50")
        table = self.accuracies(done.stdout)
        self.assertLess(table["3"][0], table["0 (clean)"][0])
        self.assertGreaterEqual(table["0.01"][0], table["3"][0])
        self.assertIn("over 50 test images", done.stdout)
        refused = self.run_command("eval", "plain", "--certify", "36/255", status=2)
        self.assertIn("nothing can be certified of small", refused.stderr)
        self.assertIn("lip-D-W", refused.stderr)

    def test_bad_radii_are_named(self):
        self.train_small("bad", "--model", "lip-mlp-1x8", "--optim", "sgd")
        self.assertIn("--out has no meaning", self.run_command("eval", "bad", "--out", "x.csv", status=2).stderr)
        for word in ("0", "-1", "36/0", "x", "1/", "nan"):
            done = self.call("eval", "bad", "--certify=" + word)
            self.assertNotEqual(done.returncode, 0, word)
            self.assertRegex(done.stderr, "number|must be above 0", word)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
