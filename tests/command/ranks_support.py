"""What the tests of several processes of the stiefel command share."""
import math
import os
import socket
import subprocess
import time

from command_support import STIEFEL, CommandTest

LIMIT = 240  # seconds that the processes of a test may take


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class RanksTest(CommandTest):
    IMAGES = (312, 96)

    def start(self, size, *words):
        """Starts `stiefel WORDS` as ranks 0 … size − 1; they are killed at the end of the test."""
        common = dict(self.env, WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        ranks = []
        for rank in range(size):
            process = subprocess.Popen([STIEFEL, *words], cwd=self.root, text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, env=dict(common, RANK=str(rank), LOCAL_RANK=str(rank)))
            self.addCleanup(self.end, process)
            ranks.append(process)
        return ranks

    def end(self, process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def finish(self, ranks, status=0):
        """Waits for all ranks; returns what they have written, (stdout, stderr) each."""
        until = time.time() + LIMIT
        said = [rank.communicate(timeout=max(1, until - time.time())) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [status] * len(ranks), said)
        return said

    def run_ranks(self, size, *words, status=0):
        return self.finish(self.start(size, *words), status)

    def copying(self, name, optim="cayley-sgd", epochs=1, batch=12):
        return ["train", "--task", "copying", "--length", "8", "--model", "urnn-12", "--batch", str(batch), "--epochs",
                str(epochs), "--device", "cpu", "--optim", optim, "--out", name]

    def far(self, name, other):
        """The distance between two runs' weights, relative to the second's norm."""
        a, b = self.weights(name), self.weights(other)
        self.assertEqual(a.keys(), b.keys())
        pairs = [pair for key in a if "num_batches" not in key for pair in zip(a[key][1], b[key][1])]
        return math.sqrt(sum((x - y)**2 for x, y in pairs) / sum(y * y for _, y in pairs))

    def expect_same_metrics(self, name, other, tolerance):
        a, b = self.metrics(name), self.metrics(other)
        self.assertEqual(len(a), len(b))
        for x, y in zip(a, b):
            for key in ("train_loss", "test_loss"):
                self.assertAlmostEqual(x[key], y[key], delta=tolerance * y[key], msg=f"{name}: {key}")
            self.assertEqual(x["step"], y["step"])

    def wait_until(self, happened, what, seconds=120):
        until = time.time() + seconds
        while not happened():
            self.assertLess(time.time(), until, what)
            time.sleep(0.002)

    def checkpoint(self, name, step):
        return f"{self.root}/{name}/step-{step:09}.ckpt"
