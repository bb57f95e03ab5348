"""`stiefel paper` as a person would use it, at smoke scale on small data written here.

    python3 paper_command_test.py PATH/TO/stiefel
"""
import csv
import fcntl
import glob
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from command_support import STIEFEL, CommandTest, read_text, write_text

SMOKE = "smoke: stand-in"


class Paper(CommandTest):
    IMAGES = (640, 200)  # batches of 128 beside the 256 that a stand-in of Table 4 sets aside

    def paper(self, name, *words, status=0, out="paper"):
        return self.run_command("paper", name, "--scale", "smoke", "--out", out, "--device", "cpu", *words, status=status)

    def folder(self, out, method):
        """Of a stand-in's run, or None: which data set stands in depends on what the machine has."""
        found = glob.glob(f"{self.root}/{out}/smoke/*-small-{method}-1")
        return found[0] if found else None

    def cells(self, name, *words, **more):
        result = json.loads(self.paper(name, "--format", "json", *words, **more).stdout)
        self.assertEqual(result["scale"], "smoke")
        return result, {(cell["row"], cell["column"]): cell for cell in result["cells"]}

    def test_damaged_runs_stop_no_other(self):
        _, cells = self.cells("table1", "--only", "cayley-adam,", out="damaged")
        whole = self.folder("damaged", "cayley-adam")
        damage = {"sgd": '{"status":', "adamw": '{"status": null}'}
        for method, facts in damage.items():
            broken = whole.replace("-cayley-adam-1", f"-{method}-1")
            shutil.copytree(whole, broken)
            write_text(broken + "/run.json", facts)
        done = self.paper("table1", out="damaged", status=1)
        self.assertIn("-sgd-1/run.json: line 1: broken JSON; restore the file from a copy", done.stderr)
        self.assertIn("-adamw-1/run.json: status is null, not a string; restore the file from a copy", done.stderr)
        self.assertRegex(done.stderr.splitlines()[-1], "-sgd-1, .*-adamw-1: failed, as said above")
        self.assertIn("cayley-sgd", done.stdout)  # the table is shown all the same
        facts = json.loads(read_text(self.folder("damaged", "cayley-sgd") + "/run.json"))
        self.assertEqual(facts["status"], "finished")
        for method, facts in damage.items():
            self.assertEqual(read_text(self.folder("damaged", method) + "/run.json"), facts)

    def test_a_half_copied_run_does_not_count(self):
        self.paper("table1", "--only", "sgd,", out="cut")
        folder = self.folder("cut", "sgd")
        write_text(folder + "/metrics.jsonl", "")
        done = self.paper("table1", "--only", "sgd,", "--show", out="cut")
        self.assertIn("metrics.jsonl: ends at epoch 0 of 1, but run.json says finished", done.stderr)
        self.assertNotIn("difference", done.stdout)

    def test_a_run_that_failed_at_its_last_word_is_finished_by_the_next(self):
        self.paper("table1", "--only", "sgd,", out="last")
        folder = self.folder("last", "sgd")
        before = self.metrics(os.path.relpath(folder, self.root))
        facts = json.loads(read_text(folder + "/run.json"))
        write_text(folder + "/run.json", json.dumps({**facts, "status": "running"}))
        _, cells = self.cells("table1", "--only", "sgd,vgg-13", out="last")
        self.assertEqual(len(cells["sgd", "vgg-13"]["runs"]), 1)
        self.assertEqual(json.loads(read_text(folder + "/run.json"))["status"], "finished")
        self.assertEqual(self.metrics(os.path.relpath(folder, self.root)), before)
        # The same of `resume`.
        write_text(folder + "/run.json", json.dumps({**facts, "status": "running"}))
        self.run_command("resume", folder)
        self.assertEqual(json.loads(read_text(folder + "/run.json"))["status"], "finished")

    def test_table1_end_to_end(self):
        dry = self.paper("table1", "--dry-run", out="one")
        plan = dry.stdout
        self.assertEqual(plan.count(", by a pass of small without the optimiser"), 4)
        self.assertEqual(dry.stderr.count("timing a pass of"), 1)
        self.assertRegex(plan.splitlines()[-1], "^about .* left$")
        self.assertIn(SMOKE, plan)
        empty = self.paper("table1", "--show", out="one").stdout
        self.assertIn("5.88", empty)
        self.assertNotIn("difference", empty)
        self.assertFalse(os.path.exists(self.root + "/one"))
        result, cells = self.cells("table1", out="one")
        self.assertIn(SMOKE, result["mark"])
        self.assertEqual(result["verdict"], "open")
        self.assertEqual(len(cells), 24)
        for cell in cells.values():
            run, = cell["runs"]
            self.assertGreater(cell["mean"], 0)
            self.assertEqual(cell["epochs"], 1)
            self.assertEqual(cell["paper_epochs"], 200)
            for key in ("command", "commit", "hardware", "libtorch", "seed", "seconds", "date"):
                self.assertTrue(run["provenance"][key], key)
        # Stand-ins are shared: four runs, one a method.
        self.assertEqual(len([name for name in os.listdir(self.root + "/one/smoke") if name != "data"]), 4)
        # Repeated, nothing runs, and every format has the same numbers.
        again = self.paper("table1", out="one")
        self.assertEqual(again.stderr, "")
        self.assertIn(SMOKE, again.stdout)
        mean = f"{cells['sgd', 'vgg-13']['mean']:.2f}"
        self.assertIn(mean, again.stdout)
        self.assertIn("5.88", again.stdout)
        self.assertIn(mean, self.paper("table1", "--format", "md", out="one").stdout)
        rows = list(csv.DictReader(io.StringIO(self.paper("table1", "--format", "csv", out="one").stdout)))
        self.assertEqual(len(rows), 24)
        self.assertAlmostEqual(float(rows[0]["mean"]), cells["sgd", "vgg-13"]["mean"])
        self.assertIn(SMOKE, rows[0]["mark"])
        # Another seed: now the time is known, and there is a deviation.
        self.assertIn(", by small with ", self.paper("table1", "--seeds", "2", "--dry-run", out="one").stdout)
        _, cells = self.cells("table1", "--only", "sgd,vgg-13", "--seeds", "2", out="one")
        self.assertEqual(list(cells), [("sgd", "vgg-13")])
        self.assertEqual([run["seed"] for run in cells["sgd", "vgg-13"]["runs"]], [1, 2])
        self.assertIsNotNone(cells["sgd", "vgg-13"]["deviation"])
        # Copied elsewhere under another name, the runs count.
        shutil.copytree(self.folder("one", "sgd"), self.root + "/two/smoke/from-a-friend")
        done = self.paper("table1", "--only", "sgd,", out="two")
        self.assertEqual(done.stderr, "")
        self.assertIn(mean, done.stdout)
        # Figure 1 draws the same runs.
        done = self.paper("figure1", "--format", "csv", out="one")
        self.assertEqual(len(list(csv.DictReader(io.StringIO(done.stdout)))), 8)
        svg = read_text(self.root + "/one/smoke/figure1-cifar10.svg")
        self.assertIn(SMOKE, svg)
        self.assertIn("top two fastest", svg)
        # Of some cells alone it is not drawn over the whole.
        self.paper("figure1", "--only", "sgd,cifar10", "--show", out="one")
        self.assertEqual(read_text(self.root + "/one/smoke/figure1-cifar10.svg"), svg)
        # The list has counted.
        listed = self.run_command("paper", "list", "--out", "one").stdout
        self.assertRegex(listed, r"table1 +4 of 4 +0 of 24 +0 of 24")

    def test_interrupted_and_repeated(self):
        def has_begun():
            folder = self.folder("stopped", "cayley-sgd")
            return folder and os.path.exists(folder + "/run.json")

        words = [STIEFEL, "paper", "table1", "--scale", "smoke", "--out", "stopped", "--device", "cpu", "--only",
                 "cayley-sgd,vgg-13"]
        child = subprocess.Popen(words, env=self.env, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 text=True)
        until = time.time() + 60
        while not has_begun() and child.poll() is None and time.time() < until:
            time.sleep(0.001)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
        if child.returncode == 0:
            self.skipTest("it finished before the signal came")
        self.assertEqual(child.returncode, 130, errors)
        self.assertIn("the same command goes on", errors)
        self.assertIn("goes on", self.run_command(*words[1:], "--dry-run").stdout)
        done = self.run_command(*words[1:])
        self.assertIn("going on from epoch 1", done.stderr)
        self.paper("table1", "--only", "cayley-sgd,vgg-13", out="straight")
        stopped, straight = (os.path.relpath(self.folder(out, "cayley-sgd"), self.root) for out in ("stopped", "straight"))
        self.assertEqual(self.metrics(stopped), self.metrics(straight))

    def test_commands_side_by_side_share_the_work(self):
        done = self.paper("table1", "--only", "sgd,vgg-13", out="shared")
        taken = self.folder("shared", "sgd")
        for name in os.listdir(taken):
            os.remove(taken + "/" + name)
        holder = os.open(taken, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(holder, fcntl.LOCK_EX)  # as a command that is at this run has it
        _, cells = self.cells("table1", "--only", ",vgg-13", out="shared")
        self.assertEqual(cells["sgd", "vgg-13"]["runs"], [])
        self.assertEqual(len(cells["adam", "vgg-13"]["runs"]), 1)
        self.assertEqual(os.listdir(taken), [])
        done = self.paper("table1", "--only", "sgd,vgg-13", out="shared")
        self.assertIn("is being run by another command", done.stderr)
        os.close(holder)
        _, cells = self.cells("table1", "--only", ",vgg-13", out="shared")
        self.assertEqual(len(cells["sgd", "vgg-13"]["runs"]), 1)

    def wait_until(self, holds, what):
        """Waits for a state, however long a busy machine takes to reach it; the bound is only for one that never comes."""
        until = time.time() + 600
        while not holds():
            self.assertLess(time.time(), until, f"in vain: {what}")
            time.sleep(0.01)

    def start_two_jobs(self, out):
        """`paper table3 --jobs 2` once both of its processes are at a run, and the worker's log. A process that has named
        its run handles signals; one that has only written something, a warning of LibTorch's say, may not yet."""
        words = [STIEFEL, "paper", "table3", "--scale", "smoke", "--out", out, "--device", "cpu", "--jobs", "2"]
        errors = f"{self.root}/{out}.err"
        log = f"{self.root}/{out}/smoke/worker-1.log"
        with open(errors, "w", encoding="utf-8") as file:
            child = subprocess.Popen(words, env=self.env, cwd=self.root, stdout=subprocess.PIPE, stderr=file, text=True)

        def is_at_a_run(path):
            return os.path.exists(path) and re.search(r"(?m)^run \d+ of \d+: .*\(smoke\)", read_text(path))

        def both_are():
            self.assertIsNone(child.poll(), read_text(errors))
            return is_at_a_run(errors) and is_at_a_run(log)

        self.wait_until(both_are, "both processes are at a run")
        return child, log

    def test_jobs_run_at_once_and_stop_together(self):
        _, cells = self.cells("table1", "--only", ",vgg-13", "--jobs", "3", "--threads", "1", out="jobs")
        self.assertEqual([len(cell["runs"]) for cell in cells.values()], [1] * 4)
        logs = sorted(glob.glob(self.root + "/jobs/smoke/worker-*.log"))
        self.assertEqual([os.path.basename(log) for log in logs], ["worker-1.log", "worker-2.log"])
        commands = [cell["runs"][0]["provenance"]["command"] for cell in cells.values()]
        self.assertTrue(all("--worker" not in command and "paper" in command for command in commands), commands)
        # The same numbers as one after the other, whoever ran them.
        _, alone = self.cells("table1", "--only", ",vgg-13", "--threads", "1", out="alone")
        for key, cell in cells.items():
            self.assertEqual(cell["mean"], alone[key]["mean"], key)
        # One that fails is named, and what the others did stays.
        _, before = self.cells("table1", "--only", "sgd,vgg-13", out="part")
        blocked = os.path.dirname(self.folder("part", "sgd")) + "/" + os.path.basename(
            self.folder("part", "sgd")).replace("-sgd-1", "-cayley-adam-1")
        write_text(blocked, "a file where a folder should be")
        done = self.paper("table1", "--only", ",vgg-13", "--jobs", "2", out="part", status=1)
        self.assertRegex(done.stderr, "cannot be made|worker-1.log")
        # A signal reaches the workers too.
        child, log = self.start_two_jobs("stop")
        child.send_signal(signal.SIGTERM)
        child.communicate()
        errors = read_text(self.root + "/stop.err")
        self.assertEqual(child.returncode, 143, errors)
        self.assertIn("goes on from there", errors)
        self.assertIn("stopped by SIGTERM", read_text(log))
        # And where this one is killed outright, they do not go on alone, nor keep its output open.
        os.remove(log)
        child, log = self.start_two_jobs("stop")
        child.kill()
        child.communicate()
        self.wait_until(lambda: "stopped by SIGTERM" in read_text(log), "the worker has stopped")

    def test_the_other_tables(self):
        result, cells = self.cells("table3", out="rest")
        self.assertEqual(len(cells), 39)
        self.assertTrue(all(len(cell["runs"]) == 1 and cell["mean"] > 0 for cell in cells.values()))
        self.assertEqual([one["value"] for one in cells["adam", "cifar10"]["paper"]], [3.85, 3.86])
        _, cells = self.cells("table2", out="rest")
        self.assertEqual(len(cells), 24)
        result, cells = self.cells("figure2", out="rest")
        self.assertEqual(len(cells), 26)
        self.assertTrue(all(len(cell["runs"][0]["curve"]) == 1 for cell in cells.values()))
        self.assertIn("training time, s", read_text(self.root + "/rest/smoke/figure2-cifar100.svg"))
        _, cells = self.cells("table4", "--only", "116,", out="rest")
        self.assertEqual(len(cells), 6)
        self.assertTrue(all(cell["mean"] > 0 for cell in cells.values()))
        _, cells = self.cells("table5", "--only", "116-polished,", out="rest")
        self.assertEqual(len(cells), 6)
        self.assertTrue(all(cell["mean"] < 1e-4 for cell in cells.values()))
        self.assertEqual(self.paper("table5", "--only", "512-polished,", out="rest").stderr, "")  # the same stand-ins

    def test_theorems(self):
        for name in ("theorem1", "theorem2"):
            result, cells = self.cells(name, "--seeds", "8")
            self.assertEqual(result["verdict"], "borne out", result["why"])
            for cell in cells.values():
                for run in cell["runs"]:
                    for key in ("command", "commit", "hardware", "libtorch", "seed", "seconds", "date"):
                        self.assertIn(key, run["provenance"])
            self.assertIn("directly", self.paper(name, "--dry-run").stdout)

    def test_theorems_are_kept(self):
        file = self.root + "/kept/smoke/theorem1.json"
        empty = self.paper("theorem1", "--show", out="kept")
        self.assertIn("theorem1.json is not there", empty.stderr)
        self.assertIn("open: it has not been computed", empty.stdout)
        part = self.paper("theorem1", "--only", "s=0,", "--seeds", "2", out="kept")
        self.assertIn("not kept", part.stderr)
        self.assertFalse(os.path.exists(self.root + "/kept"))
        self.assertRegex(self.run_command("paper", "list", "--out", "kept").stdout, r"theorem1 +– +– +–")
        for name in ("theorem1", "theorem2"):
            done = self.paper(name, "--seeds", "4", "--format", "json", out="kept")
            self.assertIn(f"kept in kept/smoke/{name}.json", done.stderr)
            # Shown, they are the same in every particular, the date and the seconds included.
            shown = self.paper(name, "--show", "--format", "json", "--html", name + ".html", out="kept")
            self.assertEqual(shown.stdout, done.stdout)
            self.assertEqual(shown.stderr.count("\n"), 1)  # where the page is
            self.assertIn(f"<dd>stiefel paper {name} ", read_text(f"{self.root}/{name}.html"))
        listed = self.run_command("paper", "list", "--out", "kept").stdout
        self.assertRegex(listed, r"theorem1 +kept +– +–")
        self.assertIn("kept is computed and kept", listed)
        # A part leaves the whole as it is, and can be shown of it.
        before = read_text(file)
        self.paper("theorem1", "--only", "s=0,", "--seeds", "2", out="kept")
        self.assertEqual(read_text(file), before)
        _, cells = self.cells("theorem1", "--show", "--only", ",complex", out="kept")
        self.assertEqual([len(cell["runs"]) for cell in cells.values()], [4] * 4)
        self.assertIn("computed with 4 seeds", self.paper("theorem1", "--show", "--seeds", "2", out="kept").stderr)
        # Copied elsewhere it counts; stand-ins and lesser scales are told apart.
        os.makedirs(self.root + "/copied/smoke")
        shutil.copy(file, self.root + "/copied/smoke")
        self.assertEqual(self.paper("theorem1", "--show", out="copied").stdout,
                         self.paper("theorem1", "--show", out="kept").stdout)
        os.rename(self.root + "/copied/smoke", self.root + "/copied/full")
        self.assertIn("its scale is smoke, not full",
                      self.run_command("paper", "theorem1", "--show", "--out", "copied", status=1).stderr)
        # A damaged one is named; computed anew it is whole again.
        write_text(file, before[:-20])
        self.assertIn("theorem1.json is damaged", self.paper("theorem1", "--show", out="kept", status=1).stderr)
        self.assertRegex(self.run_command("paper", "list", "--out", "kept").stdout, r"theorem1 +damaged +– +–")
        self.paper("theorem1", "--seeds", "2", out="kept")
        _, cells = self.cells("theorem1", "--show", out="kept")
        self.assertEqual([len(cell["runs"]) for cell in cells.values()], [2] * 8)

    def test_the_help_has_the_seeds_that_are_taken(self):
        told = dict((name, int(seeds)) for seeds, name in
                    re.findall(r"(\d+) for (theorem\d)", " ".join(self.run_command("paper", "--help").stdout.split())))
        self.assertEqual(sorted(told), ["theorem1", "theorem2"])
        # Theorem 1 is quick enough to be computed with what it takes by itself.
        result, cells = self.cells("theorem1", out="usual")
        self.assertEqual({run["provenance"]["seeds"] for cell in cells.values() for run in cell["runs"]},
                         {told["theorem1"]})
        self.assertEqual(told["theorem2"], 256)

    def test_odd_bytes_in_a_command_stop_no_output(self):
        odd = os.fsencode(self.root) + b"/odd\xff"
        words = [os.fsencode(word) for word in (STIEFEL, "paper", "theorem1", "--seeds", "2", "--format", "json", "--out")]
        done = subprocess.run([*words, odd], capture_output=True, env=self.env, cwd=self.root)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout.decode("utf-8"))["experiment"], "theorem1")
        kept, = glob.glob(odd + b"/full/theorem1.json")
        with open(kept, encoding="utf-8") as file:
            self.assertEqual(json.load(file)["experiment"], "theorem1")

    def test_errors_name_the_remedy(self):
        with open(self.root + "/afile", "w", encoding="utf-8"):
            pass
        self.assertIn("is a file", self.paper("table1", "--show", out="afile", status=2).stderr)
        for words, part in ((["table9"], "table1"), (["table1", "--only", "sdg,"], "cayley-sgd"),
                            (["table1", "--only", ",vgg"], "vgg-13"), (["table1", "--scale", "tiny"], "smoke"),
                            (["table1", "--format", "pdf"], "--format"), (["table1", "--seeds", "0"], "--seeds"),
                            (["theorem2", "--seeds", "3"], "at least 4"), (["table1"], "data get"),
                            (["table1", "--html", "nowhere/page.html"], "make it first"),
                            (["table1", "--device", "tpu", "--dry-run"], "tpu")):
            done = self.call("paper", *words, "--out", "never")
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(part, done.stderr, words)
            self.assertFalse(os.path.exists(self.root + "/never"), words)
        self.paper("table1", "--only", "sgd,vgg-13", out="taken")
        for name in os.listdir(self.folder("taken", "sgd")):
            os.remove(self.folder("taken", "sgd") + "/" + name)
        write_text(self.folder("taken", "sgd") + "/letter.txt", "dear")
        self.assertIn("move it away", self.paper("table1", "--only", "sgd,vgg-13", out="taken", status=1).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
