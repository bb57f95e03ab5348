"""`stiefel paper results` and `--html` as a person would use them.

    python3 paper_results_command_test.py PATH/TO/stiefel
"""
import json
import os
import sys
import unittest

from command_support import CommandTest, read_text, write_text


class PaperResults(CommandTest):
    def full_run(self, out, method, error):
        """A finished run of Table 1's VGG-13 as another machine would have left it."""
        folder = f"{self.root}/{out}/full/{method}"
        os.makedirs(folder)
        decay_all = "true" if method == "sgd" else "false"
        write_text(folder + "/config.toml",
                   f'data = "cifar10"\nmodel = "vgg-13"\noptim = "{method}"\nepochs = 200\naugment = "flip-crop"\n'
                   f'decay-all = {decay_all}\n')
        write_text(folder + "/run.json", json.dumps({"status": "finished", "device": "cpu", "seed": 1, "seconds": 800,
                                                     "name": method, "started": "2026-01-31T12:00:00Z"}))
        write_text(folder + "/metrics.jsonl", "".join(
            json.dumps({"epoch": i, "step": 391 * i, "train_loss": 1 / i, "train_error": 1, "test_loss": 1,
                        "test_error": error + 200 / i - 1, "rate_euclidean": 0.1, "seconds": 4 * i, "epoch_seconds": 4,
                        "images_per_second": 12500, "skipped_steps": 0}) + "\n" for i in range(1, 201)))

    def test_the_document(self):
        self.assertIn("no finished run", self.run_command("paper", "results", "--out", "docs/none", status=1).stderr)
        self.assertFalse(os.path.exists(self.root + "/docs/none"))
        self.full_run("docs/results", "sgd", 5.5)
        self.full_run("docs/results", "cayley-sgd", 5.6)
        done = self.run_command("paper", "results", "--out", "docs/results")
        self.assertIn("    stiefel paper results --out docs/results > docs/results.md\n", done.stdout)
        self.assertIn("| sgd | ours | 5.50 |", done.stdout)
        link = "results/full/curves-cifar10-vgg-13.svg"
        self.assertIn(f"({link})", done.stdout)
        svg = read_text(f"{self.root}/docs/{link}")
        self.assertTrue(svg.startswith("<svg"))
        again = self.run_command("paper", "results", "--out", "docs/results")
        self.assertEqual(again.stdout, done.stdout)
        self.assertEqual(read_text(f"{self.root}/docs/{link}"), svg)
        # Kept theorems are sections, after which nothing says that they are missing.
        self.assertIn("    stiefel paper theorem1 --out docs/results\n", again.stdout)
        self.run_command("paper", "theorem1", "--seeds", "2", "--out", "docs/results")
        done = self.run_command("paper", "results", "--out", "docs/results")
        self.assertIn("## theorem1", done.stdout)
        self.assertIn("[theorem1.json](results/full/theorem1.json)", done.stdout)
        self.assertNotIn("stiefel paper theorem1", done.stdout)
        write_text(self.root + "/docs/results/full/theorem1.json", "{")
        done = self.run_command("paper", "results", "--out", "docs/results")
        self.assertIn("left out: docs/results/full/theorem1.json", done.stderr)
        self.assertIn("| sgd | ours | 5.50 |", done.stdout)
        self.assertIn("not for results",
                      self.run_command("paper", "results", "--out", "docs/results", "--html", "x.html", status=2).stderr)

    def test_pages(self):
        self.full_run("some", "sgd", 5.5)
        done = self.run_command("paper", "table1", "--show", "--out", "some", "--html", "table1.html")
        self.assertIn("open in a browser", done.stderr)
        self.assertNotIn("open in a browser", done.stdout)
        page = read_text(self.root + "/table1.html")
        self.assertIn("<b>5.50</b><small>paper 5.88</small>", page)
        self.assertIn('id="chart-loss"', page)
        self.run_command("paper", "theorem1", "--seeds", "2", "--html", "theorem1.html")
        page = read_text(self.root + "/theorem1.html")
        self.assertIn("verdict borne-out", page)
        self.assertIn("LibTorch", page)
        self.run_command("paper", "figure1", "--show", "--out", "some", "--html", "figure1.html")
        self.assertIn("0 of 8 cells filled", read_text(self.root + "/figure1.html"))
        refused = self.run_command("paper", "table1", "--dry-run", "--html", "x.html", "--out", "some", status=2)
        self.assertIn("excludes", refused.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
