"""What becomes of the command when its streams are full or closed, and when its terminal goes away.

    python3 streams_command_test.py PATH/TO/stiefel
"""
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from command_support import STIEFEL, CommandTest, read_text, write_mnist


class Streams(CommandTest):
    def redirected(self, words, redirection):
        """The exit status of the command with a shell's redirection, and what it said."""
        return subprocess.run(["sh", "-c", f'exec "$0" "$@" {redirection}', STIEFEL, *words], env=self.env, cwd=self.root,
                              capture_output=True, text=True)

    def test_errors_have_their_status_when_they_cannot_be_told(self):
        cases = [(["check", "nowhere"], 1), (["eval", "nowhere"], 1), (["export", "nowhere"], 1), (["resume", "nowhere"], 1),
                 (["report", "nowhere"], 1), (["data", "check", "mnist"], 1), (["train", "--no-such"], 2),
                 (["train", "--optim", "no"], 2), (["trian"], 2), ([], 2), (["paper", "no"], 2),
                 (["paper", "table1", "--scale", "smoke", "--show", "--out", "none"], 0)]
        for words, status in cases:
            for redirection in ("2>/dev/full", "2>&-", "<&- 2>&-"):
                self.assertEqual(self.redirected(words, redirection).returncode, status, f"{words} {redirection}")

    def test_output_that_cannot_be_written_is_an_error(self):
        for words in (["--help"], ["--version"], ["train", "--help"], ["info"], ["data", "list"], ["paper", "list"]):
            for redirection in (">/dev/full", ">&-"):
                done = self.redirected(words, redirection)
                self.assertEqual(done.returncode, 1, f"{words} {redirection}")
                self.assertIn("the output cannot be written", done.stderr)
            self.assertEqual(self.redirected(words, ">/dev/full 2>&1").returncode, 1)

    def test_a_run_ends_whole_whatever_its_streams_are(self):
        # More lines than a stream's buffer holds, of quick epochs.
        write_mnist(self.root + "/little/mnist", 16, 16)
        more = ("--data-dir", self.root + "/little", "--checkpoint-every", "80")
        self.train("plain", *more, epochs=80)
        expected = self.metrics("plain")
        for name, redirection, status in (("stderr", "2>/dev/full", 0), ("stdout", ">/dev/full", 1),
                                          ("closed", ">&- 2>&- <&-", 1)):
            done = self.redirected(self.words(name, *more, epochs=80), redirection)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertEqual(self.metrics(name), expected)
            self.assertEqual(json.loads(read_text(f"{self.root}/{name}/run.json"))["status"], "finished")
            self.run_command("check", name)

    def test_the_paper_s_results_do_not_depend_on_the_error_stream(self):
        words = ["paper", "table1", "--scale", "smoke", "--only", "sgd,", "--device", "cpu", "--format", "csv"]
        plain = self.redirected([*words, "--out", "plain-paper"], "")
        self.assertEqual(plain.returncode, 0, plain.stderr)
        for redirection in ("2>/dev/full", "2>&-"):
            done = self.redirected([*words, "--out", "paper-" + redirection[2:].replace("/", "-")], redirection)
            self.assertEqual(done.returncode, 0)
            # The results, and none of the lines that the runs had for the error stream.
            self.assertEqual([line.split(",")[:2] for line in done.stdout.splitlines()],
                             [line.split(",")[:2] for line in plain.stdout.splitlines()])

    def stop(self, name, number, prepare=None):
        """Starts a run, sends it the signal after its first checkpoint, and returns its status and what it said."""
        child = subprocess.Popen([STIEFEL, *self.words(name, epochs=6)], env=self.env, cwd=self.root, text=True,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, preexec_fn=prepare)
        while not os.path.exists(f"{self.root}/{name}/step-000000020.ckpt") and child.poll() is None:
            time.sleep(0.002)
        for _ in range(2):  # the terminal's and the shell's
            child.send_signal(number)
        _, errors = child.communicate(timeout=120)
        return child.returncode, errors

    def test_a_terminal_that_goes_away_leaves_a_checkpoint(self):
        self.train("whole", epochs=6)
        status, errors = self.stop("hung-up", signal.SIGHUP)
        self.assertEqual(status, 129, errors)
        self.assertIn("stopped by SIGHUP; go on with: stiefel resume hung-up", errors)
        self.assertEqual(json.loads(read_text(self.root + "/hung-up/run.json"))["status"], "interrupted")
        self.run_command("resume", "hung-up")
        self.assertEqual(self.metrics("hung-up"), self.metrics("whole"))

    def test_nohup_goes_on(self):
        status, errors = self.stop("nohup", signal.SIGHUP, lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual(status, 0, errors)
        self.assertEqual(json.loads(read_text(self.root + "/nohup/run.json"))["status"], "finished")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
