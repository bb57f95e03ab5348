"""Several processes of the stiefel command that train one network over Gloo, as torchrun starts them.

    python3 distributed_test.py PATH/TO/stiefel
"""
import json
import os
import signal
import sys
import time
import unittest

from command_support import read_text
from ranks_support import RanksTest


class Distributed(RanksTest):
    def images(self, name, optim="cayley-sgd", epochs=2):
        return ["train", "--data", "mnist", "--batch", "12", "--epochs", str(epochs), "--device", "cpu", "--augment",
                "flip-crop", "--sync-norm", "--optim", optim, "--out", name]

    # distributed/training_test.cpp compares every optimizer; here is what comes on top, launches of several sizes.
    def test_recurrent_networks_learn_what_one_process_does(self):
        for optim, sizes in (("cayley-sgd", (1, 2, 4)), ("cayley-muon", (3,))):
            self.run_command(*self.copying("alone-" + optim, optim))
            for size in sizes:
                name = f"{optim}-{size}"
                said = self.run_ranks(size, *self.copying(name, optim))
                self.assertLessEqual(self.far(name, "alone-" + optim), 0 if size == 1 else 1e-6, name)
                self.expect_same_metrics(name, "alone-" + optim, 1e-6)
                self.expect_rank_0_alone_writes(name, said)

    def expect_rank_0_alone_writes(self, name, said):
        self.assertIn("done; see it with", said[0][0])
        self.assertEqual(said[1:], [("", "")] * (len(said) - 1))
        record = json.loads(read_text(f"{self.root}/{name}/run.json"))
        self.assertEqual((record["processes"], record["backend"], record["status"]), (len(said), "gloo", "finished"))

    # distributed/training_test.cpp compares weights in double: in float a number beside the kink of a ReLU may come to
    # lie on its other side, and from there two runs part.
    def test_image_networks_learn_what_one_process_does(self):
        for optim, sizes in (("cayley-sgd", (1,)), ("cayley-adam", (3,))):
            self.run_command(*self.images("alone-image-" + optim, optim))
            for size in sizes:
                name = f"image-{optim}-{size}"
                self.run_ranks(size, *self.images(name, optim))
                self.expect_same_metrics(name, "alone-image-" + optim, 0 if size == 1 else 0.1)
                self.assertEqual(self.far(name, "alone-image-" + optim) == 0, size == 1, name)

    def test_resumes_with_another_number_of_processes(self):
        straight, name = "straight", "resumed"
        self.run_command(*self.copying(straight, "cayley-adam", epochs=2))
        ranks = self.start(3, *self.copying(name, "cayley-adam", epochs=2), "--checkpoint-every", "1")
        there = self.checkpoint(name, 100)
        self.wait_until(lambda: os.path.exists(there) or ranks[0].poll() is not None, "a checkpoint")
        for rank in ranks:
            rank.kill()
            rank.wait()
        self.run_ranks(2, "resume", name)
        self.assertLessEqual(self.far(name, straight), 1e-6)
        self.expect_same_metrics(name, straight, 1e-6)
        self.assertEqual(json.loads(read_text(f"{self.root}/{name}/run.json"))["processes"], 2)

    def test_all_stop_where_one_or_all_are_interrupted(self):
        for case, chosen in (("one", [1]), ("all", [0, 1, 2])):
            name = "interrupted-" + case
            ranks = self.start(3, *self.copying(name, epochs=100000))
            self.wait_until(lambda: os.path.exists(f"{self.root}/{name}/run.json"), "the run's folder")
            time.sleep(0.5)
            for rank in chosen:
                ranks[rank].send_signal(signal.SIGINT)
            said = self.finish(ranks, status=130)
            self.assertIn("stiefel resume " + name, said[0][1])
            self.assertEqual(json.loads(read_text(f"{self.root}/{name}/run.json"))["status"], "interrupted")
            self.run_command("check", name, "--tolerance", "1e-4")

    def test_a_batch_that_cannot_be_shared_is_an_error_before_any_work(self):
        said = self.run_ranks(2, *self.copying("never", batch=15), status=2)
        self.assertIn("--batch is 15, which 2 processes cannot share evenly", said[0][1])
        self.assertFalse(os.path.exists(self.root + "/never"))

    def test_sync_norm_is_for_batch_normalisation(self):
        for words, part in ((["--normalisation", "dbn", "--optim", "sgd"], "--sync-norm has no meaning with --normalisation dbn"),
                            (["--task", "copying"], "are for images")):
            done = self.run_command("train", "--data", "mnist", "--sync-norm", "--out", "never", *words, status=2)
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
