"""What the tests of the stiefel command share: small data sets written in the real formats, and a run of the command."""
import gzip
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

STIEFEL = os.path.abspath(sys.argv[1])
with open(STIEFEL, "rb") as program:
    ADDRESS_SANITIZER = b"__asan_init" in program.read()  # whether it was built with it


def traced(env):
    """The environment of a program that is traced, which the leak sanitizer would have to do as well."""
    return dict(env, ASAN_OPTIONS=env.get("ASAN_OPTIONS", "") + ":detect_leaks=0")


def read_text(path):
    with open(path) as file:
        return file.read()


def write_text(path, text):
    with open(path, "w") as file:
        file.write(text)


def write_idx(path, shape, data):
    with gzip.open(path, "wb", 1) as file:
        file.write(struct.pack(">HBB", 0, 8, len(shape)) + struct.pack(f">{len(shape)}I", *shape) + bytes(data))


def write_mnist(folder, train, test):
    """Two easy classes of 28×28 pictures: a bright upper or lower half, with noise."""
    os.makedirs(folder, exist_ok=True)
    rng = random.Random(1)
    for name, count in (("train", train), ("t10k", test)):
        labels = [i % 10 for i in range(count)]
        pixels = bytearray()
        for label in labels:
            rows = [(200 if row // 3 == label else 20) for row in range(28)]
            for value in rows:
                pixels += bytes(min(255, value + rng.randrange(40)) for _ in range(28))
        write_idx(f"{folder}/{name}-images-idx3-ubyte.gz", (count, 28, 28), pixels)
        write_idx(f"{folder}/{name}-labels-idx1-ubyte.gz", (count,), labels)


def read_safetensors(path):
    """From the format's description: u64 length, JSON header, then the bytes."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    body = data[8 + length:]
    tensors = {}
    end = 0
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, stop = entry["data_offsets"]
        end = max(end, stop)
        size = {"F32": 4, "I64": 8}[entry["dtype"]]
        count = 1
        for n in entry["shape"]:
            count *= n
        assert stop - begin == size * count, name
        tensors[name] = (entry["shape"], struct.unpack(f"<{count}{'f' if size == 4 else 'q'}", body[begin:stop]))
    assert end == len(body)
    return header.get("__metadata__", {}), tensors


class ForkServer:
    """Runs the command without starting LibTorch each time: see fork_server.cpp."""

    def __init__(self):
        self.server = subprocess.Popen([os.path.join(os.path.dirname(STIEFEL), "stiefel_fork_server")], text=True,
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       env=dict(os.environ, OMP_NUM_THREADS="1"))

    def run(self, words, env, folder):
        with tempfile.NamedTemporaryFile("r+") as out, tempfile.NamedTemporaryFile("r+") as errors:
            request = {"words": words, "environment": env, "folder": folder, "stdout": out.name, "stderr": errors.name}
            self.server.stdin.write(json.dumps(request) + "\n")
            self.server.stdin.flush()
            status = int(self.server.stdout.readline())
            return subprocess.CompletedProcess(words, status, out.read(), errors.read())

    def close(self):
        self.server.stdin.close()
        self.server.wait()
        self.server.stdout.close()


class CommandTest(unittest.TestCase):
    IMAGES = (320, 100)  # for training, which makes 20 steps per epoch, and for testing

    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="stiefel_command_")
        cls.data = cls.root + "/data"
        write_mnist(cls.data + "/mnist", *cls.IMAGES)
        cls.env = dict(os.environ, OMP_NUM_THREADS="1", HOME=cls.root, STIEFEL_DATA=cls.data)
        cls.server = ForkServer()

    @classmethod
    def tearDownClass(cls):
        cls.server.close()
        shutil.rmtree(cls.root)

    def call(self, *words, env=None, **process):
        """Runs the command; as a program of its own where it has several threads, or with options of subprocess.run."""
        env = env or self.env
        if not process and env.get("OMP_NUM_THREADS") == "1":
            return self.server.run(words, env, self.root)
        return subprocess.run([STIEFEL, *words], capture_output=True, text=True, env=env, cwd=self.root, **process)

    def run_command(self, *words, status=0, **process):
        done = self.call(*words, **process)
        self.assertEqual(done.returncode, status, f"{words}\n{done.stdout}\n{done.stderr}")
        return done

    # Runs repeat bit for bit on the CPU, so that is where they are compared.
    def words(self, name, *more, epochs=4, device="cpu"):
        return ["train", "--data", "mnist", "--batch", "16", "--epochs", str(epochs), "--device", device, "--out", name,
                *more]

    def train(self, name, *more, status=0, **options):
        return self.run_command(*self.words(name, *more, **options), status=status)

    def trained(self, name):
        """A finished run of one epoch in the folder `name`: a copy of one that is trained once per file of tests."""
        if not os.path.exists(self.root + "/trained"):
            self.train("trained", epochs=1)
        shutil.copytree(self.root + "/trained", f"{self.root}/{name}")

    def metrics(self, name):
        with open(f"{self.root}/{name}/metrics.jsonl") as file:
            lines = [json.loads(line) for line in file]
        for line in lines:
            for key in ("seconds", "epoch_seconds", "images_per_second"):
                del line[key]
        return lines

    def weights(self, name):
        self.run_command("export", name, "--last", "-o", f"{name}.safetensors")
        return read_safetensors(f"{self.root}/{name}.safetensors")[1]

    def expect_resumed_equals_straight(self, name, words, step):
        """Runs words(FOLDER) twice, once killed when the checkpoint of that step is there, in the middle of the next
        epoch, and resumed: both must end the same."""
        straight, killed = "straight-" + name, "killed-" + name
        self.run_command(*words(straight))
        often = [STIEFEL, *words(killed), "--checkpoint-every", "1"]
        child = subprocess.Popen(often, env=self.env, cwd=self.root, stdout=subprocess.DEVNULL)
        checkpoint = f"{self.root}/{killed}/step-{step:09}.ckpt"
        until = time.time() + 120
        while not os.path.exists(checkpoint) and child.poll() is None and time.time() < until:
            time.sleep(0.001)
        child.send_signal(signal.SIGKILL)
        child.wait()
        self.run_command("resume", killed)
        self.assertEqual(self.metrics(killed), self.metrics(straight))
        self.assertEqual(self.weights(killed), self.weights(straight))
