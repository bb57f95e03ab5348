"""What the stiefel command makes of numbers, names and the environment that it is given.

    python3 options_command_test.py PATH/TO/stiefel
"""
import json
import os
import re
import subprocess
import sys
import unittest

from command_support import ADDRESS_SANITIZER, STIEFEL, CommandTest, read_text, write_text

LARGEST = str(2**63 - 1)


class Numbers(CommandTest):
    def refuse(self, *words, said, env=None):
        done = self.call(*words, env=env)
        self.assertEqual(done.returncode, 2, f"{words}\n{done.stdout}\n{done.stderr}")
        for part in said if isinstance(said, tuple) else (said,):
            self.assertIn(part, done.stderr, words)
        self.assertFalse(os.path.exists(self.root + "/never"), words)

    def train_refuses(self, name, value, said):
        given = [f"--{name}={value}"] if value != "" else [f"--{name}", ""]  # The parser takes `--name=` for no value at all
        self.refuse("train", "--data", "mnist", "--out", "never", *given, said=said)

    def test_a_seed_is_the_one_that_was_given(self):
        for given, recorded in ((LARGEST, 2**63 - 1), ("0x1F", 31), ("010", 10)):
            self.train(f"seed-{given}", "--seed", given, epochs=1)
            self.assertEqual(json.loads(read_text(f"{self.root}/seed-{given}/run.json"))["seed"], recorded)
        for command in (["train", "--out", "never", "--data", "mnist"], ["unitariness"]):
            for value in ("18446744073709551615", "9223372036854775808"):
                self.refuse(*command, "--seed", value, said=f"--seed: {value} is too large; the largest whole number is {LARGEST}")
        self.train_refuses("seed", -1, "--seed is -1; it must be 0 or more")

    def test_whole_numbers_are_whole(self):
        for value in ("", "1.5", "ten", "nan", "inf", "true", "1e3"):
            self.train_refuses("epochs", value, f"--epochs: '{value}' is not a whole number")
        for command in (["bench", "step", "--repetitions"], ["bench", "epoch", "--steps"], ["bench", "epoch", "--batch"],
                        ["unitariness", "--iterations"], ["unitariness", "--length"], ["paper", "table1", "--seeds"],
                        ["paper", "table1", "--jobs"], ["paper", "table1", "--threads"], ["resume", "x", "--threads"]):
            self.refuse(*command, "1.5", said=f"{command[-1]}: '1.5' is not a whole number")

    def test_a_number_out_of_range_is_told_with_the_range(self):
        for name, value, said in (
                ("epochs", 1000001, "from 1 to 1000000"), ("epochs", LARGEST, f"--epochs is {LARGEST}; it must be from 1"),
                ("checkpoint-every", 1000001, "from 0 to 1000000"), ("length", 1, "from 2 to 1000000"),
                ("lr", "1e13", "from 0 to 1000000000000"), ("lr", "inf", "--lr is inf; it must be from 0 to 1000000000000"),
                ("lr", "1e999", "--lr: 1e999 is too large"), ("lr", "nan", "--lr is nan; it must be from 0"),
                ("lr", "", "--lr: '' is not a number"), ("momentum", 1, "at least 0 and below 1"),
                ("dropout", -0.1, "at least 0 and below 1"), ("q", 0, "--q is 0; it must be above 0 and below 1"),
                ("q", 1, "--q is 1; it must be above 0 and below 1"), ("drop-factor", 0, "from 1e-12 to 1"),
                ("drops", "1,-1", "--drops is -1; it must be from 0"), ("drops", "1,x", "--drops: 'x' is not a number")):
            self.train_refuses(name, value, said)
        for words, said in ((("bench", "step", "--repetitions", "0"), "0 is out of range; it must be from 1 to 100000"),
                            (("paper", "table1", "--jobs", "65"), "65 is out of range; it must be from 1 to 64"),
                            (("check", "x", "--tolerance", "nan"), "--tolerance: nan is out of range"),
                            (("unitariness", "--momentum", "1"), "--momentum is 1; it must be at least 0 and below 1")):
            self.refuse(*words, said=said)

    def test_a_config_file_reads_the_same_numbers(self):
        for line, said in (("seed = 18446744073709551615", "seed: 18446744073709551615 is too large"),
                           ("epochs = 1.5", "epochs: '1.5' is not a whole number"), ("lr = 1e999", "lr: 1e999 is too large"),
                           ("lr = ten", "lr: 'ten' is not a number"), ("q = 1", "--q is 1; it must be above 0 and below 1")):
            write_text(self.root + "/bad.toml", line + "\n")
            self.refuse("train", "--config", "bad.toml", "--data", "mnist", "--out", "never", said=said)
        # Below the least normal number, but a number: it comes back from the file that it was written to.
        self.train("tiny", "--weight-decay", "1e-320", epochs=1)
        self.run_command("train", "--config", "tiny/config.toml", "--out", "tiny-again")
        self.assertEqual(read_text(self.root + "/tiny/config.toml"), read_text(self.root + "/tiny-again/config.toml"))

    def test_threads_are_bounded(self):
        self.trained("threads")
        before = read_text(self.root + "/threads/run.json")
        most = max(64, 4 * os.cpu_count())
        for words in (["train", "--data", "mnist", "--out", "never"], ["resume", "threads"], ["bench", "step"], ["unitariness"],
                      ["paper", "theorem1"]):
            if words[0] == "resume":  # there must be something left to do
                config = read_text(self.root + "/threads/config.toml")
                write_text(self.root + "/threads/config.toml", config.replace("epochs = 1", "epochs = 2"))
            self.refuse(*words, "--threads", "100000", said=("--threads is 100000", f"from 1 to {most}"))
            self.refuse(*words, "--threads", "-5", said="--threads is -5")
        many = dict(self.env, OMP_NUM_THREADS=str(most + 1))
        self.refuse("train", "--data", "mnist", "--out", "never", env=many, said=f"OMP_NUM_THREADS is {most + 1}")
        self.assertEqual(read_text(self.root + "/threads/run.json"), before)
        # A run of a larger machine goes on here.
        config = read_text(self.root + "/threads/config.toml")
        write_text(self.root + "/threads/config.toml", config.replace("threads = 0", f"threads = {most + 1}"))
        child = subprocess.Popen([STIEFEL, "resume", "threads"], env=self.env, cwd=self.root, text=True,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        first = child.stderr.readline()
        child.kill()
        child.communicate()
        self.assertIn(f"the run's {most + 1} threads are more than this machine takes: {most} are used", first)


class Waiting(CommandTest):
    def waiting(self, **more):
        """What `stiefel info` says, and how often the OpenMP library says, as it is loaded, that its threads look for
        work before they sleep."""
        ours = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
        env = {name: value for name, value in self.env.items() if name not in ours}
        done = subprocess.run([STIEFEL, "info"], capture_output=True, text=True,
                              env=dict(env, OMP_DISPLAY_ENV="verbose", **{"OMP_NUM_THREADS": "2", **more}))
        self.assertEqual(done.returncode, 0, done.stderr)
        if "GOMP_SPINCOUNT" not in done.stderr:
            self.skipTest("the OpenMP library is not GNU's")
        said = re.search("^waiting +(.*)$", done.stdout, re.MULTILINE)[1]
        return said, re.findall("GOMP_SPINCOUNT *= *'([0-9A-Za-z]*)'", done.stderr)

    @unittest.skipIf(ADDRESS_SANITIZER, "a program with the sanitizer does not start itself again with a setting of its own")
    def test_threads_spin_briefly_unless_the_user_has_chosen(self):
        self.assertEqual(self.waiting(), ("GOMP_SPINCOUNT=1000", ["1000"]))  # once: it was not loaded twice
        self.assertNotEqual(self.waiting(OMP_NUM_THREADS="1")[1], ["1000"])  # one thread waits for nobody
        self.assertEqual(self.waiting(GOMP_SPINCOUNT="123"), ("GOMP_SPINCOUNT=123", ["123"]))
        self.assertEqual(self.waiting(OMP_WAIT_POLICY="passive"), ("OMP_WAIT_POLICY=passive", ["0"]))

    def test_arguments_and_output_pass_unchanged(self):
        done = self.run_command("train", "--optim", "a b'c\"d", status=2)
        self.assertIn("--optim is 'a b'c\"d'", done.stderr)
        self.assertEqual(self.run_command("--version").stdout.count("stiefel"), 1)


class Names(CommandTest):
    NAMES = ["with space", "it's", "line\nbreak", "\033[31mred", "$HOME"]

    def hint(self, text, command):
        """The words that a shell makes of the command at the end of a message."""
        line = [line for line in text.splitlines() if f"stiefel {command} " in line][-1]
        typed = line[line.index(f"stiefel {command} "):]
        done = subprocess.run(["bash", "-c", f"stiefel() {{ printf '%s\\0' \"$@\"; }}; {typed}"], capture_output=True,
                              check=True)
        return done.stdout.decode().split("\0")[:-1]

    def assert_printable(self, text):
        self.assertIsNone(re.search("[\x00-\x09\x0b-\x1f\x7f]", text), repr(text))

    def test_commands_to_type_are_quoted(self):
        for name in self.NAMES:
            done = self.train(name, epochs=1)
            self.assert_printable(done.stdout)
            self.assertEqual(self.hint(done.stdout, "report"), ["report", name])
            again = self.train(name, status=1)
            self.assert_printable(again.stderr)
            self.assertEqual(again.stderr.count("\n"), 1, again.stderr)
            self.assertEqual(self.hint(again.stderr, "resume"), ["resume", name])

    def test_a_name_like_an_option_can_be_typed(self):
        done = self.run_command("train", "--data", "mnist", "--batch", "64", "--epochs", "1", "--device", "cpu", "--out=-dash")
        self.assertEqual(self.hint(done.stdout, "report"), ["report", "./-dash"])
        self.run_command("report", "./-dash", "-o", "dash.html")

    def test_names_are_shown_without_control_characters(self):
        bad = "no\033[31m\nsuch"
        shown = "no\\x1b[31m\\nsuch"
        for words, status in ((["resume", bad], 1), (["eval", bad], 1), (["check", bad], 1), (["export", bad], 1),
                              (["report", bad], 1), (["train", "--optim", bad], 2), (["train", "--model", bad], 2),
                              (["train", "--data", bad], 2), (["train", "--epochs", bad], 2), (["train", "--config", bad], 2),
                              (["train", "--data", "mnist", "--data-dir", bad], 1), ([bad], 2), (["train", "--" + bad], 2),
                              (["data", "check", bad], 2), (["paper", bad], 2), (["paper", "table1", "--scale", bad], 2),
                              (["bench", "step", "--methods", bad], 2), (["bench", "step", "--shape", bad], 2)):
            done = self.run_command(*words, status=status)
            self.assert_printable(done.stderr)
            self.assertIn(shown, done.stderr, words)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
