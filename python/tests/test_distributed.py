"""Distributed data parallel: two processes on the CPU hold equal replicas."""
import os
import socket

import pytest
import torch
import torch.distributed
import torch.multiprocessing

import stiefel


def has_gloo():
    if not torch.distributed.is_available():
        return False
    return getattr(torch.distributed, "is_gloo_available", lambda: True)()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def train(rank, port, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(20, 16),
        torch.nn.ReLU(),
        torch.nn.Linear(16, 16),
        torch.nn.ReLU(),
        torch.nn.Linear(16, 4),
    )
    split = stiefel.split_parameters(net)
    for weight in split.manifold:
        stiefel.init.haar_(weight)
    parallel = torch.nn.parallel.DistributedDataParallel(net)
    optimizers = [stiefel.CayleySGD, stiefel.CayleyAdam, stiefel.CayleyMuon, stiefel.RetractionSGD]
    for make in optimizers:
        optimizer = make(
            [{"params": split.manifold}, {"params": split.euclidean, "manifold": "euclidean"}], lr=0.05
        )
        torch.manual_seed(100 + rank)  # each process has data of its own
        for _ in range(5):
            optimizer.zero_grad()
            x, y = torch.randn(8, 20), torch.randint(4, (8,))
            torch.nn.functional.cross_entropy(parallel(x), y).backward()
            optimizer.step()
    data = torch.randn(2)
    torch.save(
        {
            "net": net.state_dict(),
            "defect": max(stiefel.defect(w).item() for w in split.manifold),
            "data": data,
        },
        f"{folder}/{rank}.pt",
    )
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not has_gloo(), reason="this torch has no Gloo")
def test_replicas_stay_equal(tmp_path):
    torch.multiprocessing.spawn(train, args=(free_port(), str(tmp_path)), nprocs=2)
    first, second = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert not torch.equal(first["data"], second["data"])
    for name, value in first["net"].items():
        assert torch.equal(value, second["net"][name]), name
    assert first["defect"] < 1e-5
