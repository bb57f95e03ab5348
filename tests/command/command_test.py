"""Drives the stiefel command as a person would, on small data sets written here in the real formats.

    python3 command_test.py PATH/TO/stiefel
"""
import fcntl
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest
import zlib

from command_support import (ADDRESS_SANITIZER, STIEFEL, CommandTest, read_safetensors, read_text, write_idx, write_mnist,
                             write_text)


def drop_fingerprint(path):
    """Makes a checkpoint one of a version that kept no fingerprint of the data."""
    with open(path, "rb") as file:
        magic, _, length = file.readline(), file.readline(), int(file.readline())
        head, archive = json.loads(file.read(length)), file.read()
    del head["progress"]["data"]
    text = json.dumps(head).encode()
    body = str(len(text)).encode() + b"\n" + text + archive
    with open(path, "wb") as file:
        file.write(magic + f"{len(body)} {zlib.crc32(body):08x}\n".encode() + body)


class Command(CommandTest):
    def test_trains_and_learns(self):
        done = self.train("learns", "--tensorboard")
        last = self.metrics("learns")[-1]
        self.assertLess(last["test_error"], 20)
        self.assertLess(last["defect_max"], 1e-5)
        self.assertIn("defect", done.stdout)
        record = json.loads(read_text(self.root + "/learns/run.json"))
        self.assertEqual(record["status"], "finished")
        self.assertEqual(record["optim"], "cayley-sgd")
        self.assertIn("libtorch", record["versions"])
        rows = read_text(self.root + "/learns/metrics.csv").splitlines()
        self.assertEqual(len(rows), 5)
        self.assertEqual(len(set(row.count(",") for row in rows)), 1)
        self.assertTrue(os.path.exists(self.root + "/learns/events.out.tfevents.0.stiefel"))
        self.assertIn("test error", self.run_command("eval", "learns").stdout)
        self.run_command("check", "learns", "--tolerance", "1e-4")
        self.run_command("check", "learns", "--tolerance", "1e-12", status=1)
        self.run_command("report", "learns", "-o", "report.html")
        self.assertIn("<html", read_text(self.root + "/report.html"))

    def test_every_optimiser_trains(self):
        for optim in ("sgd", "adam", "adamw", "muon", "cayley-sgd", "cayley-adam", "cayley-muon"):
            self.train("all-" + optim, "--optim", optim, epochs=2)
            self.assertLess(self.metrics("all-" + optim)[-1]["train_loss"], 2.0, optim)
        done = self.run_command("check", "all-sgd", status=1)
        self.assertIn("no orthonormal weights", done.stderr)

    def test_resumed_after_kill_equals_straight(self):
        for optim in ("cayley-sgd", "cayley-adam", "cayley-muon", "muon", "sgd"):
            self.expect_resumed_equals_straight(optim, lambda name: self.words(name, "--optim", optim), 40)

    def test_interrupt_writes_a_checkpoint_and_says_how_to_go_on(self):
        self.train("whole", "--optim", "cayley-adam", epochs=6)
        for number, status in ((signal.SIGINT, 130), (signal.SIGTERM, 143)):
            name = f"stopped-{status}"
            words = [STIEFEL, *self.words(name, "--optim", "cayley-adam", epochs=6)]
            child = subprocess.Popen(words, env=self.env, cwd=self.root, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
            while not os.path.exists(f"{self.root}/{name}/step-000000020.ckpt") and child.poll() is None:
                time.sleep(0.002)
            child.send_signal(number)
            _, errors = child.communicate(timeout=60)
            self.assertEqual(child.returncode, status, errors)
            self.assertIn(f"stiefel resume {name}", errors)
            self.assertEqual(json.loads(read_text(f"{self.root}/{name}/run.json"))["status"], "interrupted")
            first = json.loads(read_text(f"{self.root}/{name}/run.json"))
            self.run_command("resume", name)
            self.assertEqual(self.metrics(name), self.metrics("whole"))
            self.assertEqual(self.weights(name), self.weights("whole"))
            record = json.loads(read_text(f"{self.root}/{name}/run.json"))
            self.assertEqual([part["command"] for part in record["earlier"]], [first["command"]])
            self.assertEqual(record["earlier"][0]["started"], first["started"])
            self.assertEqual(record["command"][1], "resume")
        self.assertNotIn("earlier", json.loads(read_text(f"{self.root}/whole/run.json")))
        self.assertIn("is finished", self.run_command("resume", "whole").stdout)

    def test_the_resolved_config_can_be_fed_back(self):
        self.train("first", "--seed", "7", "--iterations", "3", "--no-polish", "--lr-manifold", "0.05", epochs=1)
        self.run_command("train", "--config", "first/config.toml", "--out", "second")
        self.assertEqual(read_text(self.root + "/first/config.toml"), read_text(self.root + "/second/config.toml"))
        self.assertEqual(self.metrics("first"), self.metrics("second"))
        write_text(self.root + "/bad.toml", "epoch = 3\n")
        self.assertIn("'epoch'", self.run_command("train", "--config", "bad.toml", status=2).stderr)

    def test_errors_come_before_any_work(self):
        cases = [
            (["--optim", "cayley"], "cayley-adam"), (["--model", "wrn-17-4"], "6N + 4"), (["--data", "cifar10"], "data get"),
            (["--epochs", "0"], "--epochs is 0"), (["--momentum", "nan"], "--momentum"), (["--no-such"], "--no-such"),
            (["--dropout", "0.3"], "dropout"), (["--optim", "sgd", "--lr-manifold", "1"], "--lr-manifold"),
            (["--batch", "5000"], "--batch is 5000"), (["--validation", "5000"], "--validation"),
            (["--device", "cpu", "--precision", "bf16"], "--precision is bf16"), (["--graph", "on"], "--graph"),
        ]
        for words, part in cases:
            data = [] if "--data" in words else ["--data", "mnist"]
            done = self.call("train", "--out", "never", *data, *words)
            self.assertNotEqual(done.returncode, 0, words)
            self.assertIn(part, done.stderr, words)
            self.assertFalse(os.path.exists(self.root + "/never"), words)

    def test_folders_are_not_overwritten(self):
        self.trained("mine")
        self.assertIn("resume", self.train("mine", status=1).stderr)
        os.makedirs(self.root + "/other")
        write_text(self.root + "/other/letter.txt", "dear")
        self.assertIn("not empty", self.train("other", status=1).stderr)
        for words in (["resume", "other"], ["eval", "other"], ["check", "nowhere"]):
            stderr = self.run_command(*words, status=1).stderr
            self.assertIn("no run's folder", stderr)
            self.assertIn("stiefel train --out", stderr)
        write_text(self.root + "/file", "x")
        self.train("file", status=1)
        # A folder of one's own is not removed when something else is wrong.
        os.makedirs(self.root + "/empty")
        self.train("empty", "--batch", "900000", status=2)
        self.assertTrue(os.path.isdir(self.root + "/empty"))

    def test_temporary_files_make_no_folder_unusable(self):
        # Killed while it wrote its first file; a folder may have that name as well.
        os.makedirs(self.root + "/begun")
        write_text(self.root + "/begun/config.toml.tmp", "task = ")
        os.makedirs(self.root + "/odd/config.toml.tmp")
        for name in ("begun", "odd"):
            self.train(name, epochs=1)
        self.assertEqual(self.metrics("begun"), self.metrics("odd"))
        for name in ("run.json", "metrics.jsonl", "best.ckpt", "model.safetensors"):
            os.makedirs(f"{self.root}/odd/{name}.tmp")
        config = read_text(self.root + "/odd/config.toml")
        write_text(self.root + "/odd/config.toml", config.replace("epochs = 1", "epochs = 2"))
        self.run_command("resume", "odd")
        self.run_command("export", "odd")
        os.makedirs(self.root + "/page.html.tmp")
        self.run_command("report", "odd", "-o", "page.html")

    def test_only_regular_files_are_replaced(self):
        self.trained("plain")
        os.mkfifo(self.root + "/fifo")
        self.assertIn("start the reader first", self.run_command("export", "plain", "-o", "fifo", status=1).stderr)
        with open(self.root + "/received", "wb") as received:
            reader = subprocess.Popen(["cat", self.root + "/fifo"], stdout=received)
        try:
            self.run_command("export", "plain", "-o", "fifo")
            reader.wait(timeout=60)
        finally:
            reader.kill()
            reader.wait()
        self.run_command("export", "plain", "-o", "file")
        with open(self.root + "/file", "rb") as file, open(self.root + "/received", "rb") as received:
            self.assertEqual(received.read(), file.read())
        os.symlink("target.html", self.root + "/link.html")
        self.run_command("report", "plain", "-o", "link.html")
        self.assertTrue(os.path.islink(self.root + "/link.html"))
        self.assertIn("<html", read_text(self.root + "/target.html"))
        printed = self.run_command("report", "plain", "-o", "/dev/stdout").stdout
        self.assertLess(printed.index("<html"), printed.index("open in a browser"))

    def test_a_folder_is_one_command_s(self):
        self.trained("busy")
        os.makedirs(self.root + "/held")
        for name, words in (("busy", ["resume", "busy"]), ("held", self.words("held"))):
            holder = os.open(f"{self.root}/{name}", os.O_RDONLY | os.O_DIRECTORY)
            fcntl.flock(holder, fcntl.LOCK_EX)  # as another command has it
            self.assertIn("is being run by another command", self.run_command(*words, status=1).stderr)
            os.close(holder)

    def test_epochs_without_a_checkpoint_are_not_overwritten(self):
        self.train("kept", epochs=2)
        before = read_text(self.root + "/kept/metrics.jsonl")
        for checkpoint in glob.glob(self.root + "/kept/*.ckpt"):
            os.remove(checkpoint)
        self.assertIn("no checkpoint to go on from", self.run_command("resume", "kept", status=1).stderr)
        self.assertIn("stiefel report", self.run_command("eval", "kept", status=1).stderr)
        self.assertEqual(read_text(self.root + "/kept/metrics.jsonl"), before)
        self.assertEqual(json.loads(read_text(self.root + "/kept/run.json"))["status"], "finished")

    def test_a_full_disk_under_the_output_is_told(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([STIEFEL, "info"], stdout=full, stderr=subprocess.PIPE, text=True, env=self.env)
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot be written", done.stderr)

    def test_damaged_and_foreign_checkpoints(self):
        self.train("hurt", "--checkpoint-every", "1", epochs=3)
        newest = self.root + "/hurt/step-000000060.ckpt"
        os.truncate(newest, os.path.getsize(newest) - 100)
        config = read_text(self.root + "/hurt/config.toml")
        write_text(self.root + "/hurt/config.toml", config.replace("epochs = 3", "epochs = 4"))
        done = self.run_command("resume", "hurt")
        self.assertIn("cut short", done.stderr)
        self.assertIn("epoch 3", done.stdout)  # from the older one
        write_text(self.root + "/hurt/config.toml", config.replace("seed = 1", "seed = 2").replace(
            "epochs = 3", "epochs = 9"))
        done = self.run_command("resume", "hurt", status=1)
        self.assertIn("seed", done.stderr)

    def test_a_run_killed_before_its_first_checkpoint_starts_again(self):
        words = lambda name: self.words(name, "--checkpoint-every", "50", epochs=60)
        child = subprocess.Popen([STIEFEL, *words("early")], env=self.env, cwd=self.root, stdout=subprocess.DEVNULL)
        metrics = self.root + "/early/metrics.jsonl"
        while not (os.path.exists(metrics) and os.path.getsize(metrics) > 0) and child.poll() is None:
            time.sleep(0.002)
        child.kill()
        child.wait()
        self.assertEqual(glob.glob(self.root + "/early/*.ckpt"), [])
        config = read_text(self.root + "/early/config.toml")
        write_text(self.root + "/early/config.toml", config.replace("epochs = 60", "epochs = 3"))
        done = self.run_command("resume", "early")
        self.assertIn("starting from the beginning; the epochs in metrics.jsonl are trained again", done.stdout)
        self.assertEqual(len(self.metrics("early")), 3)

    def test_data_that_changed_is_told(self):
        here = f"{self.root}/own-data"
        write_mnist(here + "/mnist", 512, 96)
        self.train("fixed", "--data-dir", here, epochs=1)
        config = read_text(self.root + "/fixed/config.toml")
        write_text(self.root + "/fixed/config.toml", config.replace("epochs = 1\n", "epochs = 2\n"))
        before = read_text(self.root + "/fixed/metrics.jsonl")
        labels = f"{here}/mnist/train-labels-idx1-ubyte.gz"
        with open(labels, "rb") as file:
            kept = file.read()
        write_idx(labels, (512,), [(i * 7 + 3) % 10 for i in range(512)])
        stderr = self.run_command("resume", "fixed", status=1).stderr
        self.assertIn("other training labels", stderr)
        self.assertIn("data-dir", stderr)
        self.assertIn("other training labels", self.run_command("eval", "fixed").stderr)
        write_mnist(here + "/mnist", 128, 96)
        self.assertIn("128 training images instead of 512", self.run_command("resume", "fixed", status=1).stderr)
        self.assertEqual(read_text(self.root + "/fixed/metrics.jsonl"), before)
        write_mnist(here + "/mnist", 512, 96)
        with open(labels, "rb") as file:
            self.assertEqual(len(file.read()), len(kept))
        self.assertEqual(self.run_command("eval", "fixed").stderr, "")
        self.run_command("resume", "fixed")
        self.assertEqual(len(self.metrics("fixed")), 2)
        # Checkpoints of older versions do not say what they were trained on.
        for path in glob.glob(self.root + "/fixed/*.ckpt"):
            drop_fingerprint(path)
        write_text(self.root + "/fixed/config.toml", config.replace("epochs = 1\n", "epochs = 3\n"))
        write_idx(labels, (512,), [(i * 7 + 3) % 10 for i in range(512)])
        self.assertEqual(self.run_command("eval", "fixed").stderr, "")
        self.run_command("resume", "fixed")

    def test_names_in_complaints_are_escaped(self):
        here = f"{self.root}/data-of-odd"
        write_mnist(here + "/mnist", 512, 96)
        name = "o\x1b[31md\nd"
        self.train(name, "--data-dir", here, "--checkpoint-every", "1", epochs=2)
        config = read_text(f"{self.root}/{name}/config.toml")
        write_text(f"{self.root}/{name}/config.toml", config.replace("epochs = 2\n", "epochs = 3\n"))
        write_idx(f"{here}/mnist/train-labels-idx1-ubyte.gz", (512,), [(i * 7 + 3) % 10 for i in range(512)])
        newest = max(glob.glob(glob.escape(f"{self.root}/{name}") + "/step-*.ckpt"))
        os.truncate(newest, os.path.getsize(newest) - 100)
        for words, status in ((["eval", name], 0), (["eval", name, "--last"], 0), (["resume", name], 1)):
            stderr = self.run_command(*words, status=status).stderr
            self.assertIn("ckpt", stderr)
            self.assertNotIn("\x1b", stderr, words)
            self.assertNotIn("d\nd", stderr, words)

    def test_another_run_s_checkpoint_is_told(self):
        self.trained("host")
        self.train("guest", "--seed", "5", epochs=1)
        for name in ("best.ckpt", "step-000000020.ckpt"):
            shutil.copy(f"{self.root}/guest/{name}", f"{self.root}/host/{name}")
        for words in (["eval"], ["check"], ["export"], ["eval", "--last"], ["resume"]):
            stderr = self.run_command(words[0], "host", *words[1:], status=1).stderr
            self.assertIn("was written with another config", stderr)
            self.assertIn("seed", stderr)
        self.run_command("check", "guest")
        # What does not change a run's course may differ, and so may the machine it went on on.
        config = read_text(self.root + "/guest/config.toml")
        for before, after in (("epochs = 1\n", "epochs = 9\n"), ('device = "cpu"', 'device = "auto"'),
                              ("threads = 0", "threads = 1")):
            self.assertIn(before, config)
            config = config.replace(before, after)
        write_text(self.root + "/guest/config.toml", config)
        self.run_command("check", "guest")
        self.run_command("eval", "guest")

    def test_a_fifo_among_a_run_s_files_is_refused_at_once(self):
        self.trained("piped")
        for name in ("metrics.jsonl", "run.json", "config.toml"):
            os.rename(f"{self.root}/piped/{name}", f"{self.root}/kept-file")
            os.mkfifo(f"{self.root}/piped/{name}")
            self.assertIn(f"{name}: is a fifo", self.run_command("report", "piped", status=1, timeout=60).stderr)
            os.rename(f"{self.root}/kept-file", f"{self.root}/piped/{name}")
        self.assertEqual(self.run_command("report", "piped", "-o", "piped.html").returncode, 0)
        # What a user names may be a pipe.
        read, write = os.pipe()
        os.write(write, read_text(self.root + "/piped/config.toml").encode())
        os.close(write)
        self.run_command("train", "--config", f"/dev/fd/{read}", "--out", "from-pipe", pass_fds=(read,))
        os.close(read)
        self.assertEqual(self.metrics("from-pipe"), self.metrics("piped"))

    def test_cuda_trains_and_resumes(self):
        if re.search(r"^gpu +none$", self.run_command("info").stdout, re.MULTILINE):
            self.skipTest("no CUDA device")
        self.train("cuda", device="cuda")
        self.assertLess(self.metrics("cuda")[-1]["test_error"], 20)
        config = read_text(self.root + "/cuda/config.toml")
        write_text(self.root + "/cuda/config.toml", config.replace("epochs = 4", "epochs = 6"))
        self.run_command("resume", "cuda")
        self.assertEqual(len(self.metrics("cuda")), 6)
        self.run_command("check", "cuda", "--tolerance", "1e-4")

    def test_validation_chooses_the_best(self):
        self.train("held-out", "--validation", "128", epochs=6)
        errors = [epoch["validation_error"] for epoch in self.metrics("held-out")]
        with open(self.root + "/held-out/best.ckpt", "rb") as file:
            file.readline(), file.readline()
            head = json.loads(file.read(int(file.readline())))
        self.assertEqual(head["progress"]["epoch"], 1 + errors.index(min(errors)))

    def test_export_agrees_with_check(self):
        self.trained("out")
        self.run_command("export", "out", "--format", "safetensors")
        meta, tensors = read_safetensors(self.root + "/out/model.safetensors")
        self.assertEqual(meta["model"], "small")
        shape, values = tensors["conv2.weight"]
        p, n = shape[0], shape[1] * shape[2] * shape[3]
        rows = [values[i * n:(i + 1) * n] for i in range(p)]
        worst = max(abs(sum(a * b for a, b in zip(rows[i], rows[j])) - (i == j)) for i in range(p) for j in range(p))
        self.assertLess(worst, 1e-5)
        self.assertIn("norm1.running_mean", tensors)

    def test_a_kept_run_is_read_like_its_folder(self):
        self.trained("in-one-file")
        self.run_command("export", "in-one-file/", "--format", "run")
        with open(self.root + "/in-one-file.json", encoding="utf-8") as file:
            kept = json.load(file)
        self.assertEqual(kept["epochs"], len(self.metrics("in-one-file")))
        self.assertEqual(kept["facts"]["status"], "finished")
        self.assertEqual(kept["metrics"]["test_error"], [round(epoch["test_error"], 2) for epoch in self.metrics("in-one-file")])
        table = self.run_command("report", "in-one-file", "in-one-file.json", "-o", "both.html").stdout.splitlines()
        self.assertEqual(table[1].split()[1:3], table[2].split()[1:3])
        # Written from a kept run it is the same file.
        self.run_command("export", "in-one-file.json", "--format", "run", "-o", "again.json")
        with open(self.root + "/again.json", encoding="utf-8") as file:
            self.assertEqual(json.load(file), kept)
        self.assertIn("--last chooses weights",
                      self.run_command("export", "in-one-file", "--format", "run", "--last", status=2).stderr)
        with open(self.root + "/in-one-file.json", "r+", encoding="utf-8") as file:
            file.truncate(300)
        self.assertIn("in-one-file.json: line", self.run_command("report", "in-one-file.json", status=1).stderr)

    def test_info_as_json_has_the_facts_of_the_text(self):
        facts = json.loads(self.run_command("info", "--json").stdout)
        lines = self.run_command("info").stdout.splitlines()
        self.assertEqual(list(facts), [line.split()[0] for line in lines])
        self.assertIn(f"stiefel {facts['stiefel']} ({facts['commit']})", self.run_command("--version").stdout)
        self.assertIsInstance(facts["threads"], int)

    def test_help_version_and_info(self):
        for words in (["--help"], ["train", "--help"], ["data", "--help"], ["--version"], ["info"]):
            self.assertTrue(self.run_command(*words).stdout.strip())
        text = self.run_command("train", "--help").stdout
        defaults = {"--epochs": "200", "--optim": "cayley-sgd", "--weight-decay": "0.0005", "--polish": "on"}
        for name, value in defaults.items():
            lines = [line for line in text.splitlines() if line.strip().startswith(name)]
            self.assertTrue(lines and value in lines[0], f"{name} with its default {value}")
        known = re.search("must be one of (.*)", self.train("x", "--optim", "no", status=2).stderr)[1].split(", ")
        optim, = [line for line in text.splitlines() if line.strip().startswith("--optim")]
        self.assertEqual([name for name in known if name not in re.findall("[a-z][a-z-]*", optim)], [])
        self.assertIn("resume", self.run_command(status=2).stderr)
        for words, said in ((("trian",), "has no sub-command 'trian'; there are train, resume"),
                            (("data", "chek"), "`stiefel data` has no sub-command 'chek'; there are"),
                            (("train", "--optm", "sgd"), "`stiefel train` has no option --optm; did you mean --optim? (`stiefel train"),
                            (("train", "--weight-decai=1"), "no option --weight-decai; did you mean --weight-decay?"),
                            (("paper", "table1", "--scal", "smoke"), "has no option --scal; did you mean --scale?"),
                            (("train", "--zzz"), "`stiefel train` has no option --zzz (`stiefel train --help` lists all)"),
                            (("--zzz",), "`stiefel` has no option --zzz (`stiefel --help` lists all)"),
                            (("train", "stray"), "stray (`stiefel train --help` lists all)"),
                            (("train", "--epochs", "ten"), "--epochs: 'ten' is not a whole number (`stiefel train --help` lists all)"),
                            (("train", "--optim"), "--optim: 1 required")):
            self.assertIn(said, self.run_command(*words, status=2).stderr)
        self.assertIn("mnist", self.run_command("data", "list").stdout)
        self.run_command("data", "check", "mnist", status=1)  # a small set is not the published one

    def test_a_named_data_folder_is_the_only_one(self):
        cached = f"{self.root}/.cache/stiefel/mnist"
        shutil.copytree(self.data + "/mnist", cached)
        env = {key: value for key, value in self.env.items() if key != "STIEFEL_DATA"}
        env.pop("XDG_CACHE_HOME", None)

        def run(*words, data=None):
            return self.call(*words, env=dict(env, STIEFEL_DATA=data) if data else env)

        train = self.words("from-cache", epochs=1)
        self.assertEqual(run(*train).returncode, 0)
        shutil.copytree(self.data + "/mnist", self.root + "/d")  # loose files that could be of two sets
        shutil.copytree(self.data + "/mnist", self.root + "/half/mnist")
        os.remove(self.root + "/half/mnist/t10k-labels-idx1-ubyte.gz")
        for folder, part in (("d", "could be of several data sets: move them into a folder called mnist"),
                             ("half", "lacks t10k-labels-idx1-ubyte")):
            for words in (self.words("never", epochs=1), ["eval", "from-cache"], ["data", "check", "mnist"],
                          ["bench", "epoch", "--data", "mnist", "--device", "cpu", "--methods", "sgd", "--steps", "1"],
                          ["paper", "table4", "--scale", "smoke", "--device", "cpu", "--only", "116,", "--out", "never"]):
                for done, name in ((run(*words, "--data-dir", folder), "leave out --data-dir"),
                                   (run(*words, data=folder), "unset STIEFEL_DATA")):
                    self.assertNotEqual(done.returncode, 0, (folder, words, done.stdout))
                    self.assertIn(part, done.stderr, words)
                    self.assertIn("stiefel data get mnist, and then " + name, done.stderr, words)
                    self.assertFalse(os.path.exists(self.root + "/never"), words)
            self.assertIn("not found" if folder == "d" else "lacks", run("data", "list", "--data-dir", folder).stdout)
        # The option wins over the variable.
        self.assertEqual(run("eval", "from-cache", "--data-dir", self.data, data="half").returncode, 0)

    def test_names_that_are_no_utf8(self):
        def run(*words):
            done = subprocess.run([STIEFEL, *words], capture_output=True, env=self.env, cwd=self.root)
            self.assertEqual(done.returncode, 0, done.stderr)

        shutil.copytree(self.data.encode(), self.root.encode() + b"/d\xff")
        run(*self.words("odd-run", "--tensorboard", epochs=2), "--data-dir", b"d\xff")
        os.rename(self.root + "/odd-run", self.root.encode() + b"/r\xff\xc0\xafn")
        facts = self.root.encode() + b"/r\xff\xc0\xafn/run.json"
        with open(facts, encoding="utf-8") as file:
            values = json.load(file)
        del values["name"]  # then it is called as its folder is
        with open(facts, "w", encoding="utf-8") as file:
            json.dump(values, file)
        run("resume", b"r\xff\xc0\xafn")
        self.trained("beside-odd")
        run("report", b"r\xff\xc0\xafn", "beside-odd", "-o", "odd.html")
        with open(self.root + "/odd.html", encoding="utf-8") as file:  # or it cannot be read at all
            self.assertIn("r\ufffd\ufffd\ufffdn", file.read())

    @unittest.skipIf(ADDRESS_SANITIZER, "the address sanitizer keeps freed memory; it finds leaks itself")
    def test_memory_does_not_grow(self):
        def peak(name, epochs):
            code = ("import resource,subprocess,sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
                    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
            done = subprocess.run([sys.executable, "-c", code, STIEFEL, *self.words(name, epochs=epochs)], env=self.env,
                                  cwd=self.root, text=True, capture_output=True, check=True)
            return int(done.stdout.split()[-1])
        self.assertLess(peak("long", 12) - peak("short", 2), 20 * 1024)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
