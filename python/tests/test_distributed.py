"""Distributed data parallel: two processes on the CPU hold equal replicas. Sharded weights are refused."""
import os
import socket

import pytest
import torch
import torch.distributed
import torch.multiprocessing
from support import torch_release

import stiefel


def has_gloo():
    if not torch.distributed.is_available():
        return False
    return getattr(torch.distributed, "is_gloo_available", lambda: True)()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def join(rank, port, processes):
    # Distributions build torch without libuv, which later versions ask for by default.
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), USE_LIBUV="0")
    torch.distributed.init_process_group("gloo", rank=rank, world_size=processes)


def train(rank, port, folder):
    torch.set_num_threads(1)
    join(rank, port, 2)
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


def shard(rank, port):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor

    join(rank, port, 2)
    mesh = init_device_mesh("cpu", (2,))
    net = torch.nn.Sequential(torch.nn.Linear(8, 6), torch.nn.ReLU(), torch.nn.Linear(6, 4))
    fully_shard(net, mesh=mesh)
    split = stiefel.split_parameters(net)
    message = r"a parameter of shape \(6, 8\) is a DTensor.* whole, on every rank"
    for make in (stiefel.CayleySGD, stiefel.CayleyAdam, stiefel.CayleyMuon, stiefel.RetractionSGD):
        with pytest.raises(TypeError, match=message):
            make([{"params": split.manifold}], lr=0.1)

    # Sharded Euclidean parameters beside whole ones on the manifold take torch's step.
    whole = stiefel.init.haar_(torch.nn.Parameter(torch.empty(3, 5)))
    shards = torch.nn.Parameter(distribute_tensor(torch.ones(4, 6), mesh, [Shard(0)]))
    optimizer = stiefel.CayleyAdam(
        [{"params": [whole]}, {"params": [shards], "manifold": "euclidean"}], lr=0.125
    )
    whole.grad = torch.ones(3, 5)
    shards.grad = distribute_tensor(torch.ones(4, 6), mesh, [Shard(0)])
    optimizer.step()
    assert torch.allclose(shards.full_tensor(), torch.full((4, 6), 0.875))
    assert stiefel.defect(whole).item() < 1e-5
    torch.distributed.destroy_process_group()


@pytest.mark.skipif(not has_gloo(), reason="this torch has no Gloo")
@pytest.mark.skipif(
    torch_release() < (2, 6), reason=f"fully_shard is in torch 2.6 and later; this is {torch.__version__}"
)
def test_sharded_weights_are_refused():
    torch.multiprocessing.spawn(shard, args=(free_port(),), nprocs=2)
