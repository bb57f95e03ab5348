"""The methods that the paper compares with, driven through the stiefel command.

    python3 comparison_command_test.py PATH/TO/stiefel
"""
import csv
import io
import json
import math
import re
import resource
import statistics
import subprocess
import sys
import unittest

from command_support import ADDRESS_SANITIZER, STIEFEL, CommandTest, read_text

RETRACTIONS = ("polar", "polar-ns", "qr", "cholesky-qr", "wen-yin", "cayley-closed", "cayley-exact", "pogo")
NO_REPAIR = ("wen-yin", "wen-yin+m", "cayley-closed", "cayley-closed+m")  # their rounding errors add up
NAMES = ("so", "dso", "srip", "omdsm", "polar", "qr", "wen-yin", "cayley-closed", "cayley-sgd", "cayley-adam",
         "cayley-muon", "sgd", "adam", "polar+m", "qr+m", "wen-yin+m", "cayley-closed+m", "cholesky-qr",
         "pogo", "pogo+m", "landing", "landing+m")


def defect(shape, values):
    """‖KKᵀ − I‖_F of a weight's rows."""
    p = shape[0]
    n = len(values) // p
    rows = [values[i * n:(i + 1) * n] for i in range(p)]
    return math.sqrt(sum((sum(a * b for a, b in zip(rows[i], rows[j])) - (i == j))**2
                         for i in range(p) for j in range(p)))


class Comparison(CommandTest):
    def test_every_retraction_trains(self):
        for optim in RETRACTIONS:
            self.train(optim, "--optim", optim, epochs=1)
            last = self.metrics(optim)[-1]
            self.assertLess(last["train_loss"], 2.2, optim)
            self.assertLess(last["defect_max"], 1e-4, optim)
        self.train("momentum", "--optim", "qr", "--momentum", "0.9", epochs=1)
        self.assertEqual(json.loads(read_text(self.root + "/momentum/run.json"))["optim"], "qr+m")
        # Momentum changes the course, and it was off before.
        self.assertNotEqual(self.metrics("momentum")[-1]["train_loss"], self.metrics("qr")[-1]["train_loss"])
        self.assertNotIn("\nmomentum", read_text(self.root + "/qr/config.toml"))

    def test_landing_is_bounded_and_not_orthonormal(self):
        done = self.train("landing", "--optim", "landing", "--momentum", "0.9", epochs=1)
        self.assertIn("defect", done.stdout)
        last = self.metrics("landing")[-1]
        self.assertLess(last["train_loss"], 2.2)
        self.assertTrue(1e-4 < last["defect_max"] <= 0.5, last["defect_max"])
        done = self.run_command("check", "landing", "--tolerance", "1e-5", status=1)
        self.assertIn("--optim landing bounds the defect, by 0.5, and does not make it zero", done.stderr)
        self.assertIn("above the tolerance", done.stdout)
        self.run_command("check", "landing", "--tolerance", "0.5")

    def test_penalties_pull_towards_the_manifold(self):
        self.train("free", "--optim", "sgd", epochs=2)
        self.train("so", "--optim", "sgd", "--penalty", "so", "--penalty-weight", "0.01", epochs=2)
        self.train("dso", "--optim", "adam", "--penalty", "dso", "--penalty-weight", "0.01", epochs=2)
        self.train("srip", "--optim", "sgd", "--penalty", "srip", "--penalty-weight", "0.1", "--srip-rounds", "3",
                   epochs=2)
        weights = {name: self.weights(name)["conv4.weight"] for name in ("free", "so", "dso", "srip")}
        free = defect(*weights["free"])
        self.assertLess(defect(*weights["so"]), 0.5 * free)
        self.assertLess(defect(*weights["srip"]), 0.9 * free)  # it presses on one direction at a time
        self.assertAlmostEqual(self.metrics("so")[-1]["defect_max"],
                               max(defect(*w) for n, w in self.weights("so").items() if n.startswith("conv")
                                   and w[0][0] <= len(w[1]) // w[0][0]), places=3)
        # A schedule that ends at once is no penalty at all.
        self.train("ended", "--optim", "sgd", "--penalty", "so", "--penalty-weight", "0.01", "--penalty-schedule", "0:0",
                   epochs=2)
        self.assertEqual(self.weights("ended"), self.weights("free"))
        self.train("later", "--optim", "sgd", "--penalty", "so", "--penalty-weight", "0.01", "--penalty-schedule", "1:0",
                   epochs=2)
        self.assertNotEqual(self.weights("later"), self.weights("so"))
        self.assertEqual(self.metrics("later")[0], self.metrics("so")[0])
        self.run_command("check", "so", "--tolerance", "100")
        self.run_command("check", "so", "--tolerance", "1e-9", status=1)

    def test_parametrised_weights_and_decorrelation_train(self):
        for kind in ("omdsm", "matrix-exp", "cayley", "householder"):
            name = "weights-" + kind
            self.train(name, "--optim", "sgd", "--weights", kind, epochs=1)
            self.assertLess(self.metrics(name)[-1]["train_loss"], 2.2, kind)
            self.assertLess(self.metrics(name)[-1]["defect_max"], 1e-4, kind)
            self.run_command("check", name, "--tolerance", "1e-4")
            # What is exported is the weight itself, under the name that any network has it.
            tensors = self.weights(name)
            self.assertNotIn("conv4.proxy", tensors)
            self.assertLess(defect(*tensors["conv4.weight"]), 1e-4, kind)
        self.train("groups", "--optim", "sgd", "--weights", "omdsm", "--group-size", "16", epochs=1)
        self.assertGreater(defect(*self.weights("groups")["conv4.weight"]), 0.1)
        self.run_command("check", "groups", "--tolerance", "1e-4")
        self.train("dbn", "--optim", "sgd", "--normalisation", "dbn", epochs=1)
        self.assertLess(self.metrics("dbn")[-1]["train_loss"], 2.2)
        self.assertIn("test error", self.run_command("eval", "dbn").stdout)

    def test_resumed_after_kill_equals_straight(self):
        cases = {"qr": ["--optim", "qr", "--momentum", "0.9"],
                 "landing": ["--optim", "landing", "--momentum", "0.9"],
                 "srip": ["--optim", "sgd", "--penalty", "srip", "--penalty-weight", "0.1", "--penalty-schedule", "2:0.01"],
                 "built": ["--optim", "sgd", "--weights", "omdsm", "--normalisation", "dbn"]}
        for case, more in cases.items():
            self.expect_resumed_equals_straight(case, lambda name: self.words(name, *more), 40)

    def bench_rows(self, *words, **more):
        done = self.run_command("bench", *words, "--format", "json", **more)
        return {row["method"]: row for row in json.loads(done.stdout)}, done.stderr

    def test_bench_step(self):
        for device in ("cpu", "auto"):
            rows, errors = self.bench_rows("step", "--shape", "8x40", "--repetitions", "3", "--device", device)
            self.assertNotIn("could not", errors)
            for name in NAMES:
                self.assertGreater(rows[name]["median_ms"], 0, name)
                self.assertGreaterEqual(rows[name]["spread_ms"], 0, name)
                self.assertEqual(len(rows[name]["rounds_ms"]), 3, name)
                self.assertAlmostEqual(rows[name]["median_ms"], statistics.median(rows[name]["rounds_ms"]), places=9)
                self.assertEqual(rows[name]["least_ms"], min(rows[name]["rounds_ms"]), name)
                for key, base in (("ratio_to_sgd", "sgd"), ("ratio_to_cayley_sgd", "cayley-sgd")):
                    ratios = [a / b for a, b in zip(rows[name]["rounds_ms"], rows[base]["rounds_ms"])]
                    self.assertAlmostEqual(rows[name][key] / statistics.median(ratios), 1, places=9)
                self.assertEqual(rows[name]["workload"], "8x40")
                if name in ("sgd", "adam", "so", "dso", "srip"):
                    self.assertIsNone(rows[name]["defect"], name)
                elif name.startswith("landing"):
                    self.assertTrue(1e-4 < rows[name]["defect"] <= 0.5, rows[name]["defect"])  # it leaves the manifold
                elif device == "cpu" or name not in NO_REPAIR:
                    self.assertLess(rows[name]["defect"], 1e-4, name)
                else:
                    # Every step adds its rounding, and how many are taken depends on how busy the GPU is.
                    self.assertTrue(math.isfinite(rows[name]["defect"]), name)
            self.assertNotIn("dbn", rows)
        done = self.run_command("bench", "step", "--model", "small", "--methods", "dbn,qr", "--repetitions", "1",
                                "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([row["method"] for row in rows], ["dbn", "qr"])
        self.assertEqual(rows[0]["defect"], "")
        self.assertGreater(float(rows[1]["ratio_to_sgd"]), 0)  # though sgd was not asked for
        text = self.run_command("bench", "step", "--shape", "4x9x20", "--methods", "qr", "--repetitions", "1").stdout
        self.assertIn("20 matrices", text)
        text = self.run_command("bench", "step", "--shape", "4x9", "--methods", "matrix-exp,cayley,householder",
                                "--repetitions", "1", "--format", "md").stdout
        self.assertIn("| householder |", text)

    def test_bench_step_of_several_workloads(self):
        rows = json.loads(self.run_command("bench", "step", "--shape", "8x40,4x9x5,4x9*5", "--methods", "dense,cayley-sgd-s5",
                                           "--rounds", "2", "--device", "cpu", "--rates", "--format", "json").stdout)
        self.assertEqual([(row["workload"], row["method"]) for row in rows],
                         [(shape, method) for shape in ("8x40", "4x9x5", "4x9*5") for method in ("dense", "cayley-sgd-s5")])
        for row in rows:
            self.assertEqual("gflops" in row, row["method"] == "cayley-sgd-s5")
            self.assertEqual(len(row["rounds_ms"]), 2)
        text = self.run_command("bench", "step", "--shape", "8x40,4x9", "--methods", "dense,cayley-sgd", "--rounds", "1",
                                "--order", "sequential", "--device", "cpu").stdout
        self.assertIn("one step on one 8×40 (1 matrix, 320 weights)", text)
        self.assertRegex(text, r"(?m)^ +one 4×9 +2.25 +[\d.]+ +≥ 1.00")
        self.assertNotIn("GFLOP", text)
        text = self.run_command("bench", "step", "--model", "small,small", "--methods", "cayley-closed", "--rounds", "1",
                                "--sample-slow", "--device", "cpu").stdout
        self.assertIn("momentum, repair of drift; on one matrix per shape, times their number", text)

    def test_bench_step_lists_what_there_is(self):
        text = self.run_command("bench", "step", "--list").stdout
        for name in (*NAMES, "dbn", "dense", "cayley-sgd-no-polish", "wrn-28-10", "2048x2048", "16x64*4096"):
            self.assertRegex(text, rf"(?m)^ +{re.escape(name)} ")

    def test_bench_recurrence(self):
        text = self.run_command("bench", "recurrence", "8", "5", "--length", "6", "--batch", "3", "--rounds", "2", "--threads",
                                "1").stdout
        self.assertRegex(text, r"(?s)urnn-8, 6 steps, batch 3, 1 thread, medians of 2 .*urnn-5, 6 steps")
        for part in ("forward", "backward", "both", "1024³ complex product", "Cayley SGD", "Cayley ADAM", "closed-form Cayley"):
            self.assertEqual(len(re.findall(rf"(?m)^ +{part} +\d", text)), 2, part)
        self.assertIn("Usage", self.run_command("bench", "recurrence", "--help").stdout)

    def test_bench_step_of_what_some_methods_cannot(self):
        # A 1×1 matrix has nowhere to turn, and OMDSM needs rows of two entries or more.
        for shape in ("1x1", "300x1"):
            rows, errors = self.bench_rows("step", "--shape", shape, "--repetitions", "1", "--device", "cpu")
            self.assertEqual([name for name in rows if rows[name].get("failure")], ["omdsm"], shape)
            self.assertIn("leaves nothing of rows", rows["omdsm"]["failure"])
            self.assertIsNone(rows["omdsm"]["median_ms"])
            self.assertRegex(errors, "(?m)^omdsm could not be measured: .*leaves nothing of rows")
            for name in NAMES:
                if name != "omdsm":
                    self.assertGreater(rows[name]["median_ms"], 0, f"{shape} {name}")
        # In every format the row says why, and the others are there.
        few = ["bench", "step", "--shape", "1x1", "--repetitions", "1", "--device", "cpu", "--methods", "omdsm,sgd"]
        self.assertRegex(self.run_command(*few).stdout, "(?m)^ +omdsm +– .*failed: .*leaves nothing of rows")
        self.assertRegex(self.run_command(*few, "--format", "md").stdout, r"(?m)^\| omdsm \| – .*failed: .* \|$")
        rows = list(csv.DictReader(io.StringIO(self.run_command(*few, "--format", "csv").stdout)))
        self.assertIn("leaves nothing of rows", rows[0]["failure"])
        self.assertEqual((rows[1]["method"], rows[1]["failure"]), ("sgd", ""))
        self.assertGreater(float(rows[1]["median_ms"]), 0)
        # None of those that were asked for: said, and no success.
        done = self.run_command("bench", "step", "--shape", "1x1", "--methods", "omdsm", "--repetitions", "1", "--device",
                                "cpu", status=1)
        self.assertIn("omdsm could not be measured", done.stderr)

    @unittest.skipIf(ADDRESS_SANITIZER, "the address sanitizer takes terabytes of addresses")
    def test_bench_step_out_of_memory(self):
        # The closed form works on n×n matrices, here of 14 GB.
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

        rows, errors = self.bench_rows("step", "--shape", "1x60000", "--repetitions", "1", "--device", "cpu", "--methods",
                                       "cayley-closed,qr,sgd", preexec_fn=limit)
        self.assertIn("alloc", rows["cayley-closed"]["failure"])
        self.assertGreater(rows["qr"]["median_ms"], 0)
        self.assertRegex(errors, "(?m)^cayley-closed could not be measured: ")

    def test_bench_epoch(self):
        done = self.run_command("bench", "epoch", "--data", "mnist", "--batch", "16", "--steps", "3", "--methods",
                                "sgd,so,dbn,omdsm,qr+m,cayley-sgd", "--format", "json", "--device", "cpu")
        rows = {row["method"]: row for row in json.loads(done.stdout)}
        self.assertEqual(rows["sgd"]["ratio_to_sgd"], 1)
        self.assertLess(rows["qr+m"]["defect"], 1e-4)
        self.assertLess(rows["omdsm"]["defect"], 1e-4)
        self.assertIsNone(rows["so"]["defect"])
        self.assertEqual(rows["sgd"]["steps_per_epoch"], 20)
        text = self.run_command("bench", "epoch", "--data", "mnist", "--batch", "16", "--steps", "1", "--methods",
                                "sgd").stdout
        self.assertIn("an epoch has 20", text)

    def test_bench_training_by_turns_on_noise(self):
        done = self.run_command("bench", "training", "--noise", "--data", "cifar10", "--batch", "16", "--steps", "2", "--rounds",
                                "3", "--methods", "plain-loop,sgd,cayley-sgd", "--format", "json", "--device", "cpu")
        rows = {row["method"]: row for row in json.loads(done.stdout)}
        self.assertEqual(list(rows), ["plain-loop", "sgd", "cayley-sgd"])
        self.assertEqual(rows["sgd"]["steps_per_epoch"], 4)
        for row in rows.values():
            ratios = [a / b for a, b in zip(row["rounds_ms"], rows["sgd"]["rounds_ms"])]
            self.assertEqual(len(ratios), 3)
            self.assertAlmostEqual(row["ratio_to_sgd"] / statistics.median(ratios), 1, places=9)
        text = self.run_command("bench", "training", "--noise", "--data", "cifar10", "--batch", "16", "--steps", "1",
                                "--methods", "plain-loop", "--device", "cpu").stdout
        self.assertIn("on noise like cifar10, batch 16", text)

    def test_bench_ranks(self):
        words = ["bench", "ranks", "--shape", "6x20,4x8x3", "--rounds", "1", "--device", "cpu"]
        # The program itself, which starts itself again as ranks.
        done = subprocess.run([STIEFEL, *words, "--processes", "3", "--format", "json"], env=self.env, capture_output=True,
                              text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = json.loads(done.stdout)
        self.assertEqual(len(rows), 2 * 3 * 4)
        for row in rows:
            self.assertEqual(row["processes"], 3)
            self.assertLessEqual(abs(row["bytes_sent"] - row["bytes_predicted"]), 1, row)
            self.assertEqual(row["bytes_sent"] == 0, row["way"] == "repeated", row)
            self.assertGreater(row["median_ms"], 0)
        text = self.run_command(*words, "--predict", "1,64", "--step-ms", "2", "--rate", "10", "--methods", "cayley-adam").stdout
        self.assertIn("predicted, not measured: cayley-adam, one 6×20, 2 ms by one process, 10 GB/s", text)
        self.assertRegex(text, r"(?m)^ *64 +divided +\S+ +\d+\.\d\d +\d+\.\d % +\S+$")
        text = self.run_command(*words, "--predict", "1", "--step-ms", "2", "--divided-step-ms", "6").stdout
        self.assertIn("2 ms by one process (6 ms where divided), 50 GB/s, 5 µs per hop", text)
        self.assertRegex(text, r"(?m)^ *1 +divided +6 +3.00 ")
        for more, part in ((["--predict", "8"], "--step-ms"), (["--predict", "0"], "--predict"),
                           (["--methods", "qr"], "--methods"), (["--processes", "0"], "from 1")):
            done = self.call(*words, *more)
            self.assertEqual(done.returncode, 2, more)
            self.assertIn(part, done.stderr, more)

    def test_bench_errors(self):
        for words, part in ((["step", "--shape", "8"], "PxN"), (["step", "--shape", "8x4", "--model", "small"], "excludes"),
                            (["step", "--methods", "cholesky"], "cholesky-qr"), (["step", "--methods", "dbn"], "--model"),
                            (["step", "--model", "resnet"], "wrn-28-10"), (["epoch", "--steps", "0"], "--steps"),
                            (["epoch", "--data", "cifar10"], "data get"), (["step", "--format", "xml"], "--format"),
                            (["step", "--shape", "8x4,8"], "PxN"), (["step", "--suite", "all"], "full"),
                            (["step", "--quick", "--model", "small"], "excludes"), (["step", "--min-time", "-1"], "from 0"),
                            (["step", "--order", "random"], "sequential"), (["step", "--methods", "plain-loop"], "dense"),
                            (["training", "--methods", "dense"], "plain-loop"), (["training", "--rounds", "0"], "from 1"),
                            (["training", "--noise", "--data-dir", "x"], "excludes"), (["recurrence", "0"], "from 1"),
                            (["recurrence", "12x"], "12x"), (["recurrence", "--device", "tpu"], "--device"),
                            (["recurrence", "--kernel", "stream"], "is for a GPU"), (["recurrence", "--kernel", "rows"], "--kernel"),
                            (["step", "--benchmark_filter=^640x5760/"], "use --model or --shape, and --methods"),
                            (["step", "--benchmark_list_tests"], "use --list"),
                            (["step", "--benchmark_format=json"], "use --format"),
                            (["step", "--benchmark_out=x.json"], "use --format json"),
                            (["step", "--benchmark_repetitions=3"], "use --rounds"),
                            (["step", "--benchmark_min_time=1"], "use --min-time"),
                            (["step", "--benchmark_enable_random_interleaving=false"], "use --order")):
            done = self.call("bench", *words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(part, done.stderr, words)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
