"""The operators on the meta device, their gradients, and opcheck where torch has it."""
import pytest
import stiefel
import torch
from support import point
from torch.nn.utils import parametrize

ops = torch.ops.stiefel
META = {"device": "meta"}


def scalars(device):
    return torch.zeros((), dtype=torch.int64, device=device), torch.zeros(
        (), dtype=torch.float64, device=device
    )


def test_every_operator_of_tensors_has_a_meta_kernel():
    registered = {
        schema.name
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("stiefel::") and any("Tensor" in str(a.type) for a in schema.arguments)
    }
    assert len(registered) >= 14
    without = [name for name in registered if "\nMeta: registered" not in torch._C._dispatch_dump(name)]
    assert without == []


def test_operators_of_ranks_on_the_meta_device_know_their_shapes():
    ranks = ops.open_ranks(1, 3)
    part = torch.empty(4, 6, **META)
    assert ops.gather_over_ranks(part, ranks).shape == (3, 4, 6)
    assert ops.sum_over_ranks_(part, ranks) is None
    assert ops.sharded_defect(part, ranks, 1).shape == ()
    assert ops.sharded_defect(torch.empty(5, 4, 0, **META), ranks, 1, True).shape == (5,)
    assert ops.sharded_orthonormalize_(part, ranks, 1) is part
    ops.close_ranks(ranks)


def test_steps_on_the_meta_device_check_and_return():
    x, m, g = (torch.empty(4, 6, **META) for _ in range(3))
    v, k = (torch.empty((), dtype=torch.float64, **META) for _ in range(2))
    skipped, rate = scalars("meta")
    assert ops.cayley_sgd_([x], [m], [g], skipped, rate, 0.9) is None
    assert ops.cayley_adam_([x], [m], [v], [k], [g], skipped, rate) is None
    assert ops.cayley_muon_([x], [m], [g], skipped, rate) is None
    assert ops.retraction_sgd_([x], [], [g], skipped, rate) is None
    with pytest.raises(RuntimeError, match="1 points came with 0 momenta"):
        ops.cayley_sgd_([x], [], [g], skipped, rate, 0.9)
    with pytest.raises(RuntimeError, match="must be like their points"):
        ops.cayley_sgd_([x], [m], [torch.empty(6, 4, **META)], skipped, rate, 0.9)


@pytest.mark.parametrize(
    "call",
    [
        lambda w: ops.defect(w, True),
        lambda w: ops.defect(w),
        lambda w: ops.project_tangent(w, w),
        lambda w: ops.polar_direction(w),
        lambda w: ops.cayley_retraction(w, w),
        lambda w: ops.orthonormalize_(w),
        lambda w: ops.haar_(w, True),
        lambda w: ops.identity_(w),
        lambda w: ops.penalty([w, w], "so"),
        lambda w: ops.penalty([w], "srip"),
        lambda w: ops.orthonormal_weight(w, "cayley"),
        lambda w: ops.orthonormal_weight(w, "omdsm"),
        lambda w: ops.parametrized_start(w, "omdsm")[1],
        lambda w: ops.parametrized_start(w, "householder")[0],
        lambda w: ops.parametrized_start(w, "householder")[1],
        lambda w: ops.parametrized_start(w, "cayley")[1],
    ],
)
@pytest.mark.parametrize(
    "make",
    [
        lambda: point(3, 4, 5).detach(),
        lambda: point(3, 4, 5, dtype=torch.complex128).detach(),
        lambda: point(3, 2, 2, 2, dtype=torch.float32).detach().contiguous(memory_format=torch.channels_last),
    ],
)
def test_meta_results_are_shaped_like_the_real_ones(call, make):
    real, meta = call(make()), call(make().to("meta"))
    assert (meta.shape, meta.dtype, meta.stride()) == (real.shape, real.dtype, real.stride())


def test_square_initializers_on_the_meta_device():
    weight = torch.empty(4, 4, **META)
    assert ops.hadamard_(weight) is not None and ops.block_rotation_(weight) is not None


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("kind", ["so", "dso", "srip"])
def test_gradients_of_penalties(kind, dtype):
    generator = torch.Generator().manual_seed(4)
    weights = [
        torch.randn(s, dtype=dtype, generator=generator, requires_grad=True)
        for s in ((3, 5), (5, 3), (2, 3, 4))
    ]

    def penalty(*each):
        start = torch.Generator().manual_seed(7)  # SRIP's start vector is held fixed
        return stiefel.penalties.penalty(kind, each, generator=start)

    assert torch.autograd.gradcheck(penalty, weights)


def test_values_of_penalties():
    k = torch.randn(3, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4))
    e = k @ k.mH - torch.eye(3, dtype=k.dtype)
    assert abs(stiefel.penalties.so(k).item() - e.square().sum().item()) < 1e-12
    assert abs(stiefel.penalties.dso(k).item() - (2 * e.square().sum().item() + 2)) < 1e-12
    assert abs(stiefel.penalties.srip(k, rounds=200).item() - torch.linalg.matrix_norm(e, 2).item()) < 1e-9
    assert stiefel.penalties.so(k.bfloat16()).dtype == torch.float32
    stack = torch.stack([k, 2 * k])
    assert (
        abs(
            stiefel.penalties.so(stack, batched=True).item()
            - (stiefel.penalties.so(k) + stiefel.penalties.so(2 * k)).item()
        )
        < 1e-10
    )
    with pytest.raises(RuntimeError, match="at least one weight"):
        stiefel.penalties.so([])


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("name", ["matrix-exp", "cayley", "householder", "omdsm"])
def test_gradients_of_parametrizations(name, dtype):
    generator = torch.Generator().manual_seed(4)
    for shape in ((3, 5), (5, 3), (4, 4)):
        if name == "omdsm" and shape == (5, 3):
            continue  # groups of two rows: covered by the C++ tests
        proxy = torch.randn(shape, dtype=dtype, generator=generator, requires_grad=True)
        assert torch.autograd.gradcheck(lambda a: ops.orthonormal_weight(a, name), (proxy,))


@pytest.mark.parametrize("name", ["matrix-exp", "cayley", "householder"])
def test_a_parametrized_layer_starts_at_its_weight_and_stays_orthonormal(name):
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(3, 8, 3).double()
    start = stiefel.init.haar_(layer.weight).detach().clone()
    parametrize.register_parametrization(layer, "weight", stiefel.nn.Orthonormal(name))
    assert (layer.weight - start).abs().max().item() < 1e-12
    assert name in repr(layer)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(5):
        optimizer.zero_grad()
        layer(torch.randn(2, 3, 6, 6, dtype=torch.float64)).square().mean().backward()
        optimizer.step()
    assert stiefel.defect(layer.weight).item() < 1e-12
    assert (layer.weight - start).abs().max().item() > 1e-5
    other = stiefel.init.haar_(torch.empty_like(start))
    layer.weight = other
    assert (layer.weight - other).abs().max().item() < 1e-12
    # The base travels with the state.
    second = torch.nn.Conv2d(3, 8, 3).double()
    parametrize.register_parametrization(second, "weight", stiefel.nn.Orthonormal(name))
    second.load_state_dict(layer.state_dict())
    assert torch.equal(second.weight, layer.weight)


def test_omdsm_as_a_parametrization():
    torch.manual_seed(0)
    layer = torch.nn.Linear(9, 4).double()
    parametrize.register_parametrization(layer, "weight", stiefel.nn.Orthonormal("omdsm"))
    weight = layer.weight.detach()
    assert stiefel.defect(weight).item() < 1e-12 and weight.sum(1).abs().max().item() < 1e-12
    layer(torch.randn(3, 9).double()).square().sum().backward()
    assert torch.isfinite(layer.parametrizations.weight.original.grad).all()


def test_a_layer_that_is_not_orthonormal_is_made_so():
    torch.manual_seed(0)
    layer = torch.nn.Linear(9, 4).double()
    nearest = stiefel.orthonormalize_(layer.weight.detach().clone())
    parametrize.register_parametrization(layer, "weight", stiefel.nn.Orthonormal("cayley"))
    assert (layer.weight - nearest).abs().max().item() < 1e-12
    with pytest.raises(ValueError, match="cayley or householder"):
        stiefel.nn.Orthonormal("exp")


def test_penalties_and_parametrizations_without_a_graph():
    weight = torch.randn(3, 5, requires_grad=True)
    with torch.no_grad():
        assert not stiefel.penalties.so(weight).requires_grad
    assert not ops.orthonormal_weight(weight.detach(), "cayley").requires_grad
    assert stiefel.penalties.so([weight.detach(), weight]).requires_grad
