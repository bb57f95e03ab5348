"""Processes that run parts of tests together, over Gloo on this machine."""
import datetime
import io
import os
import pickle
import queue
import socket
import traceback

import torch
import torch.distributed
import torch.multiprocessing

_TIMEOUT = 60


def has_gloo():
    if not torch.distributed.is_available():
        return False
    return getattr(torch.distributed, "is_gloo_available", lambda: True)()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _work(rank, port, size, tasks, results):
    torch.set_num_threads(1)
    # Distributions build torch without libuv, which later versions ask for by default.
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), USE_LIBUV="0")
    timeout = datetime.timedelta(seconds=_TIMEOUT)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=size, timeout=timeout)
    groups = [torch.distributed.new_group(list(range(n + 1)), timeout=timeout) for n in range(size)]
    while True:
        function, count, arguments = pickle.loads(tasks.get())
        if function is None:
            break
        try:
            file = io.BytesIO()
            torch.save(function(groups[count - 1], rank, count, *arguments), file)
            results.put((rank, file.getvalue(), None))
        except BaseException:
            results.put((rank, None, traceback.format_exc()))
    torch.distributed.destroy_process_group()


class Processes:
    """Started once; each test gives some of them a function to call, as importing torch takes seconds.
    After an error, which leaves some waiting for messages of others, new ones are started."""

    def __init__(self, size):
        self._size = size
        self._start()

    def _start(self):
        context = torch.multiprocessing.get_context("spawn")
        self._results = context.Queue()
        self._tasks = [context.Queue() for _ in range(self._size)]
        port = free_port()
        self._processes = [
            context.Process(target=_work, args=(rank, port, self._size, tasks, self._results), daemon=True)
            for rank, tasks in enumerate(self._tasks)
        ]
        for process in self._processes:
            process.start()

    def run(self, size, function, *arguments):
        """What function(process group, rank, size, *arguments) returns on each of the first ranks."""
        if not self._processes:
            self._start()
        # As bytes: torch's queues hand tensors on by file descriptors, which may be closed by then.
        task = pickle.dumps((function, size, arguments))
        for tasks in self._tasks[:size]:
            tasks.put(task)
        found, errors = {}, []
        for _ in range(size):
            try:
                rank, value, error = self._results.get(timeout=5 if errors else 2 * _TIMEOUT)
            except queue.Empty:
                errors.append(f"only ranks {sorted(found)} have answered")
                break
            found[rank] = value
            if error is not None:
                errors.append(f"rank {rank}: {error}")
        if errors:
            for process in self._processes:
                process.terminate()
            self._processes = []
            raise AssertionError("\n".join(errors))
        return [torch.load(io.BytesIO(found[rank])) for rank in range(size)]

    def stop(self):
        for tasks in self._tasks:
            tasks.put(pickle.dumps((None, 0, ())))
        for process in self._processes:
            process.join(10)
            if process.is_alive():
                process.terminate()
