"""DTensors on the manifold: stepped where they lie, or in another placement."""
import copy

import pytest
import torch
from support import give_gradient, optimizers, point, torch_release
from test_distributed import DIVIDED, assert_close, error_of, network

import stiefel

pytestmark = pytest.mark.skipif(
    torch_release() < (2, 6), reason=f"DTensors need torch 2.6 or later; this is {torch.__version__}"
)

# Functions that begin with "on_ranks" run in every process: (process group, rank, number of ranks, …).


def placements():
    from torch.distributed.tensor import Replicate, Shard

    # Of the weights below: along the long side; along the other, which changes places; whole; Euclidean.
    return [
        Shard(1),
        Shard(1),
        Shard(3),
        Shard(1),
        Shard(0),
        Shard(0),
        Shard(0),
        Shard(2),
        Shard(0),
        Shard(0),
    ] + [Shard(1), Shard(0), Shard(0), Replicate(), Replicate(), Shard(0)]


def whole_weights():
    reduced = [point(6, 30, dtype=torch.float32, seed=seed).detach().bfloat16() for seed in (3, 12, 14)]
    return [
        point(5, 21, seed=1).detach(),
        point(4, 6, 3, 3, seed=2).detach(),
        point(4, 6, 3, 3, seed=20).detach(),
        reduced[0],
        point(24, 7, seed=4).detach(),
        point(4, 2, seed=5).detach(),  # of three ranks one has nothing
        point(6, 6, seed=6).detach(),
        point(3, 4, 18, batched=True, seed=7).detach(),
        point(5, 12, seed=8).detach(),
        point(4, 6, 3, 3, seed=9).detach(),
        point(12, 5, seed=10).detach(),
        reduced[1],
        point(3, 4, 6, batched=True, seed=11).detach(),
        point(3, 9, seed=13).detach(),
        reduced[2],
        torch.ones(4, 3),
    ]


STACKS = (7, 12)
_WIDE = {torch.bfloat16: torch.float32}


class Weights:
    """Without a mesh they are whole."""

    def __init__(self, mesh=None, values=None):
        self.mesh = mesh
        self.all = [torch.nn.Parameter(each) for each in self.spread(values or whole_weights())]

    def spread(self, whole):
        if self.mesh is None:
            return [each.clone() for each in whole]
        from torch.distributed.tensor import distribute_tensor

        return [distribute_tensor(each, self.mesh, [p]) for each, p in zip(whole, placements())]

    def optimizer(self, name):
        stacks = [self.all[i] for i in STACKS]
        plain = [weight for i, weight in enumerate(self.all[:-1]) if i not in STACKS]
        return optimizers()[name](
            [
                {"params": plain},
                {"params": stacks, "batched": True},
                {"params": self.all[-1:], "manifold": "euclidean"},
            ]
        )

    def train(self, optimizer, first, last):
        for i in range(first, last):
            whole = Weights()
            give_gradient(whole.all, seed=i)
            for weight, gradient in zip(self.all, self.spread([each.grad for each in whole.all])):
                weight.grad = gradient
            optimizer.step()

    def values(self):
        if self.mesh is None:
            return [weight.detach().clone() for weight in self.all]
        # Of bfloat16 Gloo sends nothing.
        wide = [weight.detach().to(_WIDE.get(weight.dtype, weight.dtype)) for weight in self.all]
        return [each.full_tensor().to(weight.dtype) for each, weight in zip(wide, self.all)]


def mesh_of(group):
    from torch.distributed.device_mesh import DeviceMesh

    return DeviceMesh.from_group(group, "cpu")


def on_ranks_train(group, rank, size, name, expected, shares):
    mine = Weights(mesh_of(group))
    optimizer = mine.optimizer(name)
    if shares:  # those that every rank has whole
        optimizer.distribute(group)
    mine.train(optimizer, 0, 15)
    for weight, placement in zip(mine.all, placements()):
        assert weight.placements == (placement,)
    assert_close(mine.values(), expected)
    assert optimizer.skipped_steps() == 0


@pytest.mark.parametrize("name", DIVIDED)
def test_sharded_steps_equal_those_of_one_process(processes, name):
    alone = Weights()
    alone.train(alone.optimizer(name), 0, 15)
    for size, shares in ((1, False), (2, False), (3, True)):
        processes.run(size, on_ranks_train, name, alone.values(), shares)


def on_ranks_resume(group, rank, size, name, expected, whole_state, middle):
    mesh = mesh_of(group)
    mine = Weights(mesh)
    optimizer = mine.optimizer(name)
    mine.train(optimizer, 0, 6)
    state = copy.deepcopy(optimizer.state_dict())  # of DTensors, as torch has it
    for loaded in (state, whole_state):
        resumed = Weights(mesh, [each.clone() for each in middle])
        second = resumed.optimizer(name)
        second.load_state_dict(loaded)
        resumed.train(second, 6, 10)
        assert_close(resumed.values(), expected)
    optimizer.distribute(group)
    optimizer.consolidate_state_dict()
    return optimizer.state_dict() if rank == 0 else None


@pytest.mark.parametrize("name", DIVIDED)
def test_sharded_states_go_on_and_are_saved_whole(processes, name):
    alone = Weights()
    optimizer = alone.optimizer(name)
    alone.train(optimizer, 0, 6)
    middle, whole = alone.values(), copy.deepcopy(optimizer.state_dict())
    alone.train(optimizer, 6, 10)
    state = processes.run(3, on_ranks_resume, name, alone.values(), whole, middle)[0]
    resumed = Weights(values=middle)
    second = resumed.optimizer(name)
    second.load_state_dict(state)
    resumed.train(second, 6, 10)
    assert_close(resumed.values(), alone.values())


def on_ranks_fully_shard(group, rank, size, name, along, expected):
    """fully_shard's weights, with gradients by hand: on the CPU torch 2.6 has no forward pass of it."""
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_optimizer_state_dict,
        set_optimizer_state_dict,
    )
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard, distribute_tensor

    def long_side(parameter):
        return Shard(1) if parameter.dim() == 2 and parameter.shape[0] <= parameter.shape[1] else None

    net, _ = network()
    fully_shard(net, mesh=mesh_of(group), shard_placement_fn=long_side if along else None)
    optimizer = make(name, net)

    def train(first, last):
        for i in range(first, last):
            for parameter, gradient in zip(net.parameters(), gradients(net, i)):
                parameter.grad = distribute_tensor(gradient, parameter.device_mesh, parameter.placements)
            optimizer.step()

    train(0, 5)
    for whole in (False, True):
        options = StateDictOptions(full_state_dict=whole)
        saved = get_optimizer_state_dict(net, optimizer, options=options)
        optimizer = make(name, net)
        optimizer.zero_grad()  # torch asks for it
        set_optimizer_state_dict(net, optimizer, saved, options=options)
        train(10, 12) if whole else train(5, 10)
    for parameter, value in zip(net.parameters(), expected):
        assert torch.allclose(parameter.full_tensor(), value, rtol=0, atol=2e-5)


def make(name, net):
    split = stiefel.split_parameters(net)
    return optimizers()[name](
        [{"params": split.manifold}, {"params": split.euclidean, "manifold": "euclidean"}], lr=0.05
    )


def gradients(net, seed):
    whole = [torch.nn.Parameter(torch.empty(parameter.shape)) for parameter in net.parameters()]
    give_gradient(whole, seed=seed)
    return [parameter.grad for parameter in whole]


@pytest.mark.parametrize("along", [True, False])
@pytest.mark.parametrize("name", DIVIDED)
def test_weights_of_fully_shard(processes, name, along):
    net, _ = network()
    optimizer = make(name, net)
    for i in range(12):
        for parameter, gradient in zip(net.parameters(), gradients(net, i)):
            parameter.grad = gradient
        optimizer.step()
    processes.run(2, on_ranks_fully_shard, name, along, [p.detach() for p in net.parameters()])


def on_ranks_errors(group, rank, size):
    from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor

    mesh = mesh_of(group)

    def sharded(whole, axis=1):
        return torch.nn.Parameter(distribute_tensor(whole.detach(), mesh, [Shard(axis)]))

    weight = sharded(point(4, 6))
    message = error_of(lambda: stiefel.RetractionSGD([weight], lr=0.1), ValueError)
    assert "RetractionSGD steps whole weights" in message and "take CayleySGD" in message
    message = error_of(lambda: stiefel.CayleySGD([weight], lr=0.1, shard_dim=1), ValueError)
    assert "is a DTensor, which says itself how it is divided" in message
    message = error_of(lambda: stiefel.CayleySGD([weight], lr=0.1, polish=False), ValueError)
    assert "polish" in message
    message = error_of(lambda: stiefel.CayleySGD([sharded(torch.zeros(3, 8))], lr=0.1))
    assert "rank-deficient" in message and "stiefel.init.haar_" in message, message
    partial = torch.nn.Parameter(DTensor.from_local(point(4, 6).detach(), mesh, [Partial()]))
    message = error_of(lambda: stiefel.CayleySGD([partial], lr=0.1), TypeError)
    assert "has the placements (Partial(sum),); what can be stepped is" in message, message
    for call in (stiefel.defect, stiefel.orthonormalize_, stiefel.init.haar_):
        message = error_of(lambda: call(weight), TypeError)
        assert "is a DTensor" in message and "full_tensor()" in message

    generator = torch.Generator().manual_seed(3)
    for axis in (0, 1):
        far = torch.randn(5, 24, dtype=torch.float64, generator=generator)
        parameter = sharded(far, axis)
        with pytest.warns(UserWarning, match="1 of 1 parameters were not orthonormal"):
            optimizer = stiefel.CayleySGD([parameter], lr=0.1)
        assert_close([parameter.full_tensor()], [stiefel.orthonormalize_(far)])
        with torch.no_grad():
            parameter.mul_(4)
        parameter.grad = torch.ones_like(parameter)
        assert "1 divided matrix was left in place" in error_of(optimizer.step)
        assert optimizer.skipped_steps() == 1


def test_errors_about_dtensors(processes):
    processes.run(2, on_ranks_errors)


def on_ranks_two_dimensions(group, rank, size):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    expected = point(4, 9)
    single = stiefel.CayleySGD([expected], lr=0.1, momentum=0.9)
    found = []
    for shape in ((1, size), (size, 1)):
        mesh = init_device_mesh("cpu", shape)
        both = distribute_tensor(expected.detach(), mesh, [Replicate(), Shard(1)])
        found.append(torch.nn.Parameter(both))
        found.append(torch.nn.Parameter(distribute_tensor(expected.detach(), mesh, [Shard(0), Shard(1)])))
    optimizer = stiefel.CayleySGD(found, lr=0.1, momentum=0.9)
    for i in range(4):
        give_gradient([expected], seed=i)
        for each in found:
            each.grad = distribute_tensor(expected.grad, each.device_mesh, each.placements)
        single.step()
        optimizer.step()
    for each in found:
        assert_close([each.full_tensor()], [expected.detach()])


def test_meshes_of_two_dimensions(processes):
    processes.run(3, on_ranks_two_dimensions)
