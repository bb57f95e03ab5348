"""Several processes: replicas that share their steps, and weights of which each process has a part."""
import copy
import re

import pytest
import torch
import torch.distributed
from support import give_gradient, optimizers, point

import stiefel

# Functions that begin with "on_ranks" run in every process: (process group, rank, number of ranks, …).


def error_of(call, kind=RuntimeError):
    with pytest.raises(kind) as caught:
        call()
    return str(caught.value)


class Weights:
    """Wide, tall, square, stacked, complex and channels-last weights, a bfloat16 one, and a free one."""

    def __init__(self):
        last = point(6, 3, 4, 4, dtype=torch.float32, seed=5).detach()
        self.plain = [
            point(5, 12, seed=1),
            point(12, 5, seed=2),
            point(7, 7, seed=3),
            point(5, 6, dtype=torch.complex128, seed=4),
            torch.nn.Parameter(last.contiguous(memory_format=torch.channels_last)),
            torch.nn.Parameter(point(6, 10, dtype=torch.float32, seed=6).detach().bfloat16()),
        ]
        self.stacks = [point(3, 4, 6, batched=True, seed=7)]
        generator = torch.Generator().manual_seed(8)
        self.free = [torch.nn.Parameter(torch.randn(4, 3, generator=generator))]

    def all(self):
        return [*self.plain, *self.stacks, *self.free]

    def values(self):
        return [weight.detach().clone() for weight in self.all()]

    def set(self, values):
        with torch.no_grad():
            for weight, value in zip(self.all(), values):
                weight.copy_(value)
        return self


def make(name, weights):
    free = {"params": weights.free, "lr": 0.01}
    stacks = {"params": weights.stacks, "batched": True, "lr": 0.02}
    if name == "SGDG":  # the released optimizer knows no stacks
        free["stiefel"], stacks = False, {"params": weights.stacks, "stiefel": False}
    else:
        free["manifold"] = "euclidean"
    return optimizers()[name]([{"params": weights.plain}, stacks, free])


def train(optimizer, weights, first, last):
    for i in range(first, last):
        give_gradient(weights.all(), seed=i)
        optimizer.step()


_UNITS = {torch.bfloat16: 1 / 64, torch.float32: 2e-5}


def assert_close(found, expected):
    for a, b in zip(found, expected):
        distance = (a - b).abs().max().item() if a.numel() else 0.0
        assert distance <= _UNITS.get(a.dtype, 1e-11), (a.shape, a.dtype, distance)


def assert_equal(found, expected):
    for a, b in zip(found, expected):
        assert torch.equal(a, b), (a.shape, a.dtype)


# Weights that every process has.


def on_ranks_train(group, rank, size, name, steps):
    weights = Weights()
    optimizer = make(name, weights)
    optimizer.distribute(group)
    train(optimizer, weights, 0, steps)
    owned = [parameter in optimizer.state for parameter in (*weights.plain, *weights.stacks)]
    return {"values": weights.values(), "owned": owned, "skipped": optimizer.skipped_steps()}


@pytest.mark.parametrize("name", optimizers())
def test_shared_steps_equal_those_of_one_process(processes, name):
    alone = Weights()
    train(make(name, alone), alone, 0, 50)
    for size in (1, 2, 3):
        found = processes.run(size, on_ranks_train, name, 50)
        assert_close(found[0]["values"], alone.values())
        for other in found:
            assert_equal(other["values"], found[0]["values"])
            assert other["skipped"] == 0
        owners = [sum(of_weight) for of_weight in zip(*(each["owned"] for each in found))]
        # To SGDG the tall matrix and the stack are Euclidean, and so every rank's.
        assert owners == ([1, size, 1, 1, 1, 1, size] if name == "SGDG" else [1] * 7)


def on_ranks_one_weight(group, rank, size):
    weight = point(4, 6)
    optimizer = stiefel.CayleySGD([weight], lr=0.1, momentum=0.9)
    optimizer.distribute(group)
    for i in range(5):
        give_gradient([weight], seed=i)
        optimizer.step()
    return weight.detach(), weight in optimizer.state


def test_more_ranks_than_weights(processes):
    alone = point(4, 6)
    optimizer = stiefel.CayleySGD([alone], lr=0.1, momentum=0.9)
    for i in range(5):
        give_gradient([alone], seed=i)
        optimizer.step()
    found = processes.run(3, on_ranks_one_weight)
    assert [owns for _, owns in found] == [True, False, False]
    assert all(torch.equal(weight, alone) for weight, _ in found)


def network():
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
    return net, [{"params": split.manifold}, {"params": split.euclidean, "manifold": "euclidean"}]


def fit(net, optimizer, rank, size, steps):
    """Each process has its part of every batch."""
    generator = torch.Generator().manual_seed(7)
    for _ in range(steps):
        x, y = torch.randn(12, 20, generator=generator), torch.randint(4, (12,), generator=generator)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x[rank::size]), y[rank::size]).backward()
        optimizer.step()


def on_ranks_data_parallel(group, rank, size, name, shares):
    net, groups = network()
    optimizer = optimizers()[name](groups, lr=0.05)
    if shares:
        optimizer.distribute(group)
    parallel = torch.nn.parallel.DistributedDataParallel(net, process_group=group)
    fit(parallel, optimizer, rank, size, 20)
    return list(net.state_dict().values())


@pytest.mark.parametrize("shares", [False, True])
@pytest.mark.parametrize("name", [name for name in optimizers() if name != "SGDG"])
def test_data_parallel_training(processes, name, shares):
    net, groups = network()
    fit(net, optimizers()[name](groups, lr=0.05), 0, 1, 20)
    first, second = processes.run(2, on_ranks_data_parallel, name, shares)
    assert_equal(first, second)
    for a, b in zip(first, net.state_dict().values()):
        assert torch.allclose(a, b, rtol=0, atol=2e-5)


def on_ranks_save(group, rank, size, name, to):
    weights = Weights()
    optimizer = make(name, weights)
    optimizer.distribute(group)
    train(optimizer, weights, 0, 5)
    assert "consolidate_state_dict(to=" in error_of(optimizer.state_dict)
    optimizer.consolidate_state_dict(to=to)
    saved = None
    if rank == to:
        saved = {"values": weights.values(), "state": copy.deepcopy(optimizer.state_dict())}
    else:
        error_of(optimizer.state_dict)
    train(optimizer, weights, 5, 6)
    assert "after the last step" in error_of(optimizer.state_dict)
    return saved


def on_ranks_resume(group, rank, size, name, saved, first):
    weights = Weights().set(saved["values"])
    optimizer = make(name, weights)
    if first == "distribute":
        optimizer.distribute(group)
    optimizer.load_state_dict(saved["state"])
    if first == "load":
        optimizer.distribute(group)
    train(optimizer, weights, 5, 12)
    return weights.values()


@pytest.mark.parametrize("name", optimizers())
def test_a_state_goes_on_with_another_number_of_ranks(processes, name):
    alone = Weights()
    optimizer = make(name, alone)
    train(optimizer, alone, 0, 12)
    saved = processes.run(3, on_ranks_save, name, 1)[1]
    for size, first in ((1, "load"), (2, "distribute"), (3, "load")):
        for values in processes.run(size, on_ranks_resume, name, saved, first):
            assert_close(values, alone.values())
    own = Weights().set(saved["values"])
    optimizer = make(name, own)
    optimizer.load_state_dict(saved["state"])
    train(optimizer, own, 5, 12)
    assert_close(own.values(), alone.values())


def on_ranks_skip(group, rank, size):
    weights, start = Weights(), Weights()
    optimizer = make("CayleySGD", weights)
    optimizer.distribute(group)
    give_gradient(weights.all(), seed=0)
    for weight in (weights.plain[0], weights.plain[2], weights.stacks[0]):
        weight.grad[0, 0] = float("nan")
    optimizer.step()
    assert torch.equal(weights.plain[0], start.plain[0])
    assert not torch.equal(weights.plain[1], start.plain[1])
    optimizer.consolidate_state_dict()
    assert optimizer.skipped_steps() == 3
    if rank == 0:
        other = make("CayleySGD", weights)
        other.load_state_dict(optimizer.state_dict())
        assert other.skipped_steps() == 3


def test_skipped_steps_are_those_of_all_ranks(processes):
    processes.run(3, on_ranks_skip)


def on_ranks_off_manifold(group, rank, size):
    weights, start = Weights(), Weights()
    optimizer = make("CayleySGD", weights)
    optimizer.distribute(group)
    with torch.no_grad():
        weights.plain[0].mul_(5)
    give_gradient(weights.all(), seed=0)
    message = error_of(optimizer.step)
    assert re.search(r"1 matrix was left in place: a weight of shape \(5, 12\)", message), message
    assert not torch.equal(weights.plain[1], start.plain[1])  # all others have moved
    stiefel.orthonormalize_(weights.plain[0])
    give_gradient(weights.all(), seed=1)
    optimizer.step()
    assert optimizer.skipped_steps() == 1
    return weights.values()


def test_an_error_about_a_weight_off_the_manifold_reaches_every_rank(processes):
    first, *others = processes.run(3, on_ranks_off_manifold)
    for other in others:
        assert_equal(other, first)


class Fragile(stiefel.CayleySGD):
    fails = False

    def _step_manifold(self, group, batch, rate, counters):
        if self.fails and batch.points:
            raise MemoryError("no memory for it")
        super()._step_manifold(group, batch, rate, counters)


def on_ranks_failure(group, rank, size):
    weights = [point(4, 6, seed=1), point(5, 9, seed=2)]
    optimizer = Fragile(weights, lr=0.1)
    optimizer.distribute(group)
    optimizer.fails = rank == 1
    give_gradient(weights, seed=0)
    if rank == 1:
        assert error_of(optimizer.step, MemoryError) == "no memory for it"
    else:
        assert "the step has failed on rank 1, so that" in error_of(optimizer.step)
    optimizer.fails = False
    optimizer.step()  # all ranks go on
    return [weight.detach() for weight in weights]


def test_a_step_that_fails_on_one_rank_is_an_error_on_all(processes):
    first, *others = processes.run(3, on_ranks_failure)
    for other in others:
        assert_equal(other, first)


def on_ranks_differ(group, rank, size):
    weights = Weights()
    if rank == size - 1:
        stiefel.init.haar_(weights.plain[4])
    message = error_of(lambda: make("CayleySGD", weights).distribute(group), ValueError)
    assert "of shape (6, 3, 4, 4), is not the same on rank 2 as on rank 0" in message, message
    some = [point(4, 6)] * (1 if rank == 1 else 2)
    several = [torch.nn.Parameter(weight.detach().clone()) for weight in some]
    optimizer = stiefel.CayleySGD(several, lr=0.1)
    message = error_of(lambda: optimizer.distribute(group), ValueError)
    assert "rank 1 has 1 parameters on the manifold and rank 0 has 2" in message, message
    optimizer.step()  # as before


def test_different_weights_are_refused(processes):
    processes.run(3, on_ranks_differ)


def on_ranks_add(group, rank, size):
    weights, added = Weights(), point(8, 20)
    optimizer = make("CayleySGD", weights)
    if group is not None:
        optimizer.distribute(group)
    train(optimizer, weights, 0, 3)
    optimizer.add_param_group({"params": [added], "lr": 0.1})
    for i in range(3, 8):
        give_gradient([added], seed=100 + i)
        train(optimizer, weights, i, i + 1)
    return [*weights.values(), added.detach()]


def test_weights_that_are_added_later(processes):
    alone = on_ranks_add(None, 0, 1)
    for values in processes.run(2, on_ranks_add):
        assert_close(values, alone)


def on_ranks_default_group(group, rank, size):
    weight = point(4, 6)
    optimizer = stiefel.CayleySGD([weight], lr=0.1)
    optimizer.distribute()
    give_gradient([weight], seed=0)
    optimizer.step()
    assert "shared among ranks already" in error_of(optimizer.distribute)
    assert "cannot be copied or pickled" in error_of(lambda: copy.deepcopy(optimizer))
    assert "there is no rank 3" in error_of(lambda: optimizer.consolidate_state_dict(3), ValueError)
    return weight.detach()


def test_the_default_process_group(processes):
    found = processes.run(3, on_ranks_default_group)
    assert_equal(found[1:], found[:1] * 2)


def test_without_a_process_group():
    optimizer = stiefel.CayleySGD([point(4, 6)], lr=0.1)
    if torch.distributed.is_available():
        assert "init_process_group" in error_of(optimizer.distribute)
    assert "shared by distribute()" in error_of(optimizer.consolidate_state_dict)


# Weights of which every process has a part.

DIVIDED = ("CayleySGD", "CayleyAdam", "CayleyMuon")


class Divided:
    """Weights that are divided by columns and by rows, stacks, one in half precision, and whole ones."""

    def __init__(self, rank=0, size=1, values=None):
        half = point(6, 30, dtype=torch.float32, seed=3).detach().bfloat16()
        whole = values or [
            point(5, 21, seed=1),
            point(4, 6, 3, 3, seed=2),
            half,
            point(24, 7, seed=4),
            point(3, 4, 18, batched=True, seed=5),
            point(6, 6, seed=6),
            point(3, 9, seed=7),
        ]
        self.axes = [1, 1, 1, 0, 2, None, None]
        self.rank, self.size = rank, size
        self.all = [torch.nn.Parameter(self.part(*each)) for each in zip(whole, self.axes)]

    def part(self, whole, axis):
        """Uneven, and nothing on rank 1 of three."""
        whole = whole.detach()
        if axis is None or self.size == 1:
            return whole.clone()
        first = whole.shape[axis] // 3
        begin = 0 if self.rank == 0 else first
        end = {0: first, self.size - 1: whole.shape[axis]}.get(self.rank, first)
        return whole.narrow(axis, begin, end - begin).clone()

    def optimizer(self, name, sharded=True):
        divided = {"shard_dim": 1} if sharded else {}
        groups = [
            {"params": self.all[:3], **divided},
            {"params": self.all[3:4], **divided},
            {"params": self.all[4:5], "batched": True, **divided},
            {"params": self.all[5:]},
        ]
        if sharded:
            groups[1]["shard_dim"] = 0
        return optimizers()[name](groups)

    def give_gradient(self, seed):
        whole = Divided()
        give_gradient(whole.all, seed=seed)
        for mine, theirs, axis in zip(self.all, whole.all, self.axes):
            mine.grad = self.part(theirs.grad, axis)

    def train(self, optimizer, first, last):
        for i in range(first, last):
            self.give_gradient(i)
            optimizer.step()

    def values(self):
        return [weight.detach().clone() for weight in self.all]

    def parts(self, values):
        return [self.part(*each) for each in zip(values, self.axes)]


def on_ranks_divided(group, rank, size, name, expected):
    mine = Divided(rank, size)
    optimizer = mine.optimizer(name)
    optimizer.distribute(group)
    mine.train(optimizer, 0, 15)
    assert_close(mine.values(), mine.parts(expected))
    assert optimizer.skipped_steps() == 0
    mine.give_gradient(0)
    if mine.all[0].numel():
        mine.all[0].grad.view(-1)[0] = float("inf")
    optimizer.step()
    assert optimizer.skipped_steps() == 1  # counted once


@pytest.mark.parametrize("name", DIVIDED)
def test_divided_weights_equal_one_process(processes, name):
    alone = Divided()
    alone.train(alone.optimizer(name, sharded=False), 0, 15)
    for size in (1, 2, 3):
        processes.run(size, on_ranks_divided, name, alone.values())


def on_ranks_save_divided(group, rank, size, name):
    mine = Divided(rank, size)
    optimizer = mine.optimizer(name)
    optimizer.distribute(group)
    mine.train(optimizer, 0, 6)
    optimizer.consolidate_state_dict()
    return optimizer.state_dict() if rank == 0 else None


def on_ranks_resume_divided(group, rank, size, name, state, values, expected):
    mine = Divided(rank, size, values)
    optimizer = mine.optimizer(name)
    assert "call distribute() on every rank first" in error_of(lambda: optimizer.load_state_dict(state))
    optimizer.distribute(group)
    optimizer.load_state_dict(state)
    mine.train(optimizer, 6, 12)
    assert_close(mine.values(), mine.parts(expected))


@pytest.mark.parametrize("name", DIVIDED)
def test_divided_states_are_saved_whole(processes, name):
    alone = Divided()
    optimizer = alone.optimizer(name, sharded=False)
    alone.train(optimizer, 0, 6)
    middle, whole = alone.values(), optimizer.state_dict()
    alone.train(optimizer, 6, 12)
    state = processes.run(3, on_ranks_save_divided, name)[0]
    shapes = [{key: value.shape for key, value in each["state"][0].items()} for each in (state, whole)]
    assert shapes[0] == shapes[1]
    for size in (1, 2, 3):
        processes.run(size, on_ranks_resume_divided, name, state, middle, alone.values())
    resumed = Divided(values=middle)
    second = resumed.optimizer(name, sharded=False)
    second.load_state_dict(state)
    resumed.train(second, 6, 12)
    assert_close(resumed.values(), alone.values())


def on_ranks_start(group, rank, size, whole, expected):
    mine = Divided(rank, size)
    weight = torch.nn.Parameter(mine.part(whole, 1))
    optimizer = stiefel.CayleySGD([weight], lr=0.1, shard_dim=1)
    assert torch.equal(weight, mine.part(whole, 1))
    assert "shard_dim=1" in error_of(optimizer.step)
    with pytest.warns(UserWarning, match="1 of 1 parameters were not orthonormal"):
        optimizer.distribute(group)
    assert_close([weight.detach()], [mine.part(expected, 1)])
    with torch.no_grad():
        weight.mul_(4)
    weight.grad = torch.ones_like(weight)
    assert "1 divided matrix was left in place" in error_of(optimizer.step)
    assert optimizer.skipped_steps() == 1


def test_divided_weights_are_made_orthonormal_together(processes):
    whole = torch.randn(5, 24, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    processes.run(3, on_ranks_start, whole, stiefel.orthonormalize_(whole.clone()))


def on_ranks_without_gradient(group, rank, size):
    mine, start = Divided(rank, size), point(4, 12)
    used, unused = (torch.nn.Parameter(mine.part(start, 1)) for _ in range(2))
    optimizer = stiefel.CayleySGD([used, unused], lr=0.1, shard_dim=1)
    optimizer.distribute(group)
    if used.numel():
        used.grad = torch.ones_like(used)
    optimizer.step()
    assert torch.equal(unused, mine.part(start, 1))
    assert used.grad is None if used.numel() == 0 else not torch.equal(used, unused)
    if rank == 2:
        unused.grad = torch.ones_like(unused)
    assert "rank 2 has a gradient of its part of a weight and rank 0 has none" in error_of(optimizer.step)


def test_a_divided_weight_without_gradients_stays(processes):
    processes.run(3, on_ranks_without_gradient)


def on_ranks_unfit(group, rank, size):
    unfit = torch.nn.Parameter(torch.zeros(4 + rank, 6))
    optimizer = stiefel.CayleySGD([unfit], lr=0.1, shard_dim=1)
    message = error_of(lambda: optimizer.distribute(group), ValueError)
    assert "in dimension 0; only dimension 1 is divided" in message, message
    part = point(8, 16).detach()[:, 8 * rank : 8 * rank + 8]
    for options, remedy in (({"polish": False}, "polish"), ({"norm": "one"}, "'frobenius' or 'spectral'")):
        optimizer = stiefel.CayleySGD([torch.nn.Parameter(part)], lr=0.1, shard_dim=1, **options)
        assert remedy in error_of(lambda: optimizer.distribute(group), ValueError)


def test_what_cannot_be_divided(processes):
    processes.run(2, on_ranks_unfit)
    with pytest.raises(ValueError, match="shard_dim must be 0 or 1, or None; got 2"):
        stiefel.CayleySGD([point(4, 6)], lr=0.1, shard_dim=2)
    with pytest.raises(ValueError, match="RetractionSGD steps whole weights.* take CayleySGD"):
        stiefel.RetractionSGD([{"params": [point(4, 6)], "shard_dim": 1}], lr=0.1)
