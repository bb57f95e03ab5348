"""Each optimizer against the dense reference in double."""
import pytest
import reference
import stiefel
import torch
from support import give_gradient, point

SHAPES = [
    ((12, 40), False),
    ((40, 12), False),
    ((9, 9), False),
    ((1, 5), False),
    ((6, 3, 3, 3), False),
    ((20, 2, 2, 2), False),
    ((2, 3, 5, 9), True),
    ((4, 9, 5), True),
    ((3, 6, 6), True),
]


def compare(optimizer, weight, batched, make, rate, steps=8, tolerance=1e-11):
    """Runs the optimizer beside one reference per matrix."""
    references = [make(x) for x in reference.rows_of(weight.detach().clone(), batched)]
    start = weight.detach().clone()
    for i in range(steps):
        give_gradient([weight], seed=i)
        optimizer.step()
        for each, g in zip(references, reference.rows_of(weight.grad, batched)):
            each.step(g, rate)
    expected = reference.weight_of(torch.stack([each.x.mH for each in references]), weight, batched)
    assert (weight.detach() - expected).abs().max().item() < tolerance
    assert (weight.detach() - start).abs().max().item() > 1e-2  # it has moved
    assert stiefel.defect(weight, batched).max().item() < 1e-12
    assert optimizer.skipped_steps() == 0


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape,batched", SHAPES)
def test_cayley_sgd(shape, batched, dtype):
    weight = point(*shape, dtype=dtype, batched=batched)
    optimizer = stiefel.CayleySGD([weight], lr=0.05, momentum=0.9, batched=batched)
    compare(optimizer, weight, batched, lambda x: reference.Sgd(x, 0.9), 0.05)


@pytest.mark.parametrize("options", [{"iterations": 5}, {"iterations": 1}, {"exact": True}])
@pytest.mark.parametrize("shape", [(12, 40), (40, 12), (9, 9)])
def test_cayley_sgd_with_other_iterations(shape, options):
    weight = point(*shape)
    optimizer = stiefel.CayleySGD([weight], lr=0.05, momentum=0.5, **options)
    compare(optimizer, weight, False, lambda x: reference.Sgd(x, 0.5, **options), 0.05)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("shape,batched", SHAPES)
def test_cayley_adam(shape, batched, dtype):
    weight = point(*shape, dtype=dtype, batched=batched)
    optimizer = stiefel.CayleyAdam([weight], lr=0.1, batched=batched)
    compare(optimizer, weight, batched, reference.Adam, 0.1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize(
    "shape,batched",
    [((12, 40), False), ((40, 12), False), ((6, 3, 3, 3), False), ((2, 3, 12, 5), True), ((4, 5, 12), True)],
)
def test_cayley_muon(shape, batched, nesterov, dtype):
    weight = point(*shape, dtype=dtype, batched=batched)
    optimizer = stiefel.CayleyMuon([weight], 0.05, nesterov=nesterov, exact_root=True, batched=batched)
    compare(optimizer, weight, batched, lambda x: reference.Muon(x, 0.9, nesterov), 0.05)


RETRACTIONS = {
    "polar": reference.by_polar,
    "polar-ns": reference.by_polar,
    "qr": reference.by_qr,
    "cholesky-qr": reference.by_qr,
    "wen-yin": reference.by_cayley,
    "cayley-closed": reference.by_cayley,
    "cayley-exact": reference.by_cayley,
}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("retraction", RETRACTIONS)
def test_retraction_sgd(retraction, momentum, dtype):
    for shape, batched in SHAPES[:3] + SHAPES[-2:-1]:
        weight = point(*shape, dtype=dtype, batched=batched)
        optimizer = stiefel.RetractionSGD([weight], 0.02, retraction, momentum=momentum, batched=batched)
        compare(
            optimizer,
            weight,
            batched,
            lambda x: reference.Retraction(x, momentum, RETRACTIONS[retraction]),
            0.02,
        )


def test_weights_of_several_shapes_and_types_step_together():
    shapes = [(5, 9), (9, 5), (4, 2, 3, 3)]
    together = [point(*s, dtype=d) for d in (torch.float32, torch.float64) for s in shapes]
    alone = [torch.nn.Parameter(p.detach().clone()) for p in together]
    optimizers = [stiefel.CayleySGD(together, lr=0.1, momentum=0.9)]
    optimizers += [stiefel.CayleySGD([p], lr=0.1, momentum=0.9) for p in alone]
    for i in range(3):
        give_gradient(together, seed=i)
        give_gradient(alone, seed=i)
        for optimizer in optimizers:
            optimizer.step()
    for a, b in zip(together, alone):
        assert torch.allclose(a, b, rtol=0, atol=1e-6 if a.dtype == torch.float32 else 1e-14)


def test_channels_last_weights():
    plain = point(8, 3, 3, 3)
    last = torch.nn.Parameter(plain.detach().clone().contiguous(memory_format=torch.channels_last))
    for weight in (plain, last):
        optimizer = stiefel.CayleyAdam([weight], lr=0.1)
        for i in range(3):
            give_gradient([weight], seed=i)
            optimizer.step()
    assert last.is_contiguous(memory_format=torch.channels_last)
    assert (plain - last).abs().max().item() < 1e-13


@pytest.mark.parametrize("shape", [(5, 9), (9, 5), (6, 6)])
def test_functions_of_the_manifold(shape):
    x = point(*shape).detach()
    z = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    rows, direction = reference.rows_of(x)[0], reference.rows_of(z)[0]
    s = rows @ direction.mH
    tangent = stiefel.project_tangent(x, z)
    assert (reference.rows_of(tangent)[0] - (direction - 0.5 * (s + s.mH) @ rows)).abs().max().item() < 1e-13
    moved = stiefel.cayley_retraction(x, tangent * 0.1, exact=True)
    expected = reference.by_cayley(rows.mH, reference.rows_of(tangent)[0].mH * 0.1).mH
    assert (reference.rows_of(moved)[0] - expected).abs().max().item() < 1e-13
    noise = x + 0.1 * z
    assert (
        reference.rows_of(stiefel.orthonormalize_(noise.clone()))[0]
        - reference.polar(reference.rows_of(noise)[0])
    ).abs().max().item() < 1e-13
    e = reference.rows_of(noise)[0]
    e = e @ e.mH - torch.eye(len(e), dtype=e.dtype)
    assert abs(stiefel.defect(noise).item() - e.norm().item()) < 1e-13


def test_initializers():
    generator = torch.Generator().manual_seed(3)
    weight = torch.nn.Parameter(torch.empty(8, 8))
    for make in (
        lambda w: stiefel.init.haar_(w, generator=generator),
        stiefel.init.identity_,
        stiefel.init.hadamard_,
        lambda w: stiefel.init.block_rotation_(w, generator=generator),
    ):
        assert make(weight) is weight
        assert stiefel.defect(weight).item() < 1e-6
    repeated = [
        stiefel.init.haar_(torch.empty(3, 5), generator=torch.Generator().manual_seed(3)) for _ in range(2)
    ]
    assert torch.equal(*repeated)
    stack = stiefel.init.haar_(torch.empty(4, 3, 5), batched=True)
    assert stiefel.defect(stack, batched=True).shape == (4,)
    with pytest.raises(RuntimeError, match="power of two"):
        stiefel.init.hadamard_(torch.empty(6, 6))
