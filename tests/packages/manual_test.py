"""The manual page and the completion that app/manual.py writes for a program whose --help looks like the command's.

    python3 manual_test.py PATH/TO/manual.py
"""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

MANUAL = os.path.abspath(sys.argv[1])

PROGRAM = r"""#!/bin/bash
case "$*" in
  --version) echo 'stiefel 1.2.3 (abc)' ;;
  --help) cat <<'TEXT'
About it.
Usage: stiefel [OPTIONS] SUBCOMMAND

Options:
  -h,--help                       Print this help message and exit

Subcommands:
  train                           train a network
  bench                           time it
TEXT
  ;;
  'train --help') cat <<'TEXT'
train a network
Usage: stiefel train [OPTIONS] RUN

Positionals:
  RUN TEXT REQUIRED               the run's folder

Options:
  -h,--help                       Print this help message and exit
  --epochs INT=200                passes over the training set
  --channels-last,--no-channels-last{false}
                                  memory layout
  --permuted,--no-permuted{false} '\n' is no line break
TEXT
  ;;
  'bench --help') cat <<'TEXT'
time it
Usage: stiefel bench [OPTIONS] SUBCOMMAND

Subcommands:
  training, epoch                 whole steps
TEXT
  ;;
  'bench training --help') printf 'whole steps\nUsage: stiefel bench training [OPTIONS]\n' ;;
  *) exit 2 ;;
esac
"""


class Manual(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="stiefel manual ")

    def tearDown(self):
        shutil.rmtree(self.root)

    def write(self, program=PROGRAM):
        with open(self.root + "/stiefel", "w") as file:
            file.write(program)
        os.chmod(self.root + "/stiefel", 0o755)
        return subprocess.run([sys.executable, "-B", MANUAL, self.root + "/stiefel", "--man", self.root + "/page", "--completion",
                               self.root + "/completion"], capture_output=True, text=True, timeout=60)

    def complete(self, *words):
        script = '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _stiefel; echo "${COMPREPLY[@]}"'
        return subprocess.run(["bash", "-c", script, self.root + "/completion", *words], capture_output=True, text=True,
                              check=True).stdout.split()

    def test_the_page_has_every_option(self):
        self.assertEqual(self.write().stderr, "")
        with open(self.root + "/page") as file:
            page = file.read()
        for part in ('"stiefel 1.2.3"', "\n\\fB\\-\\-epochs\\fR \\fIINT\\fR (default: 200)\npasses over the training set\n",
                     "\n\\fB\\-\\-channels\\-last\\fR, \\fB\\-\\-no\\-channels\\-last\\fR\nmemory layout\n",
                     "\n\\&'\\en' is no line break\n", "\n\\fIRUN TEXT REQUIRED\\fR\n", "\n.SS stiefel bench training [OPTIONS]\n"):
            self.assertIn(part, page)

    def test_sub_commands_and_options_are_completed(self):
        self.write()
        self.assertEqual(self.complete("stiefel", ""), ["train", "bench"])
        self.assertEqual(self.complete("stiefel", "bench", ""), ["training"])
        self.assertEqual(self.complete("stiefel", "train", "--epochs", "2", "--no-"), ["--no-channels-last", "--no-permuted"])
        self.assertEqual(self.complete("stiefel", "train", "ru"), [])  # bash then offers files

    def test_help_about_another_command_is_an_error(self):
        done = self.write(PROGRAM.replace("Usage: stiefel train ", "Usage: stiefel "))
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("`stiefel train --help` is about another command", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
