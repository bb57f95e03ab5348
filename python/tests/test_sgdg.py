"""The drop-in for the released optimizer."""
import pytest
import reference
import stiefel
import torch
from support import give_gradient, point
from stiefel.compat import SGDG


def released_step(x, g, rate):
    """One step as the released code takes it from an orthonormal start without momentum, rows p×n: the 1-norm
    of W bounds the step, Y⁰ goes along the unprojected gradient, and five rounds follow."""
    big_x, m = x.mH, -g.mH
    w = reference.generator(big_x, m)
    norm = w.abs().sum(0).max().item()
    alpha = min(rate, 1 / (norm + 1e-8))
    y = big_x + alpha * m
    for _ in range(5):
        y = big_x + alpha / 2 * w @ (big_x + y)
    # What the rounds leave: the start is off the fixed point by at most α‖M − WX‖ + ‖(α/2)W‖·‖Y − X‖, and
    # every round contracts by (α/2)‖W‖₂.
    contraction = alpha / 2 * torch.linalg.matrix_norm(w, 2).item()
    fixed = reference.cayley(big_x, w, alpha, exact=True)
    start = (big_x + alpha * m - fixed).norm().item()
    return y.mH, start * contraction**5


@pytest.mark.parametrize("shape", [(6, 6), (5, 12), (16, 16), (8, 3, 3, 3)])
@pytest.mark.parametrize("rate", [0.01, 0.1, 1.5])
def test_one_step_is_the_released_one_up_to_its_truncation(shape, rate):
    weight = point(*shape)
    start = weight.detach().clone()
    optimizer = SGDG([weight], lr=rate, stiefel=True)
    give_gradient([weight], seed=1)
    expected, truncation = released_step(reference.rows_of(start)[0], reference.rows_of(weight.grad)[0], rate)
    optimizer.step()
    moved = reference.rows_of(weight.detach())[0]
    assert (moved - expected).norm().item() < 4 * truncation + 1e-12
    assert (moved - reference.rows_of(start)[0]).norm().item() > 20 * truncation  # the bound says something
    assert stiefel.defect(weight).item() < 1e-12


def test_tall_matrices_and_vectors_are_euclidean():
    wide, tall, bias = point(4, 6), torch.nn.Parameter(torch.randn(6, 4)), torch.nn.Parameter(torch.randn(5))
    tall_before, bias_before = tall.detach().clone(), bias.detach().clone()
    optimizer = SGDG([wide, tall, bias], lr=0.1, stiefel=True)
    give_gradient([wide, tall, bias], seed=0)
    optimizer.step()
    assert torch.allclose(tall, tall_before - 0.1 * tall.grad)
    assert torch.allclose(bias, bias_before - 0.1 * bias.grad)
    assert stiefel.defect(wide).item() < 1e-12


def test_momentum_takes_effect():
    weights = [point(5, 8), point(5, 8)]
    plain, heavy = SGDG(weights[:1], 0.05, stiefel=True), SGDG(weights[1:], 0.05, momentum=0.9, stiefel=True)
    for i in range(2):
        give_gradient(weights[:1], seed=i)
        give_gradient(weights[1:], seed=i)
        plain.step()
        heavy.step()
        assert torch.equal(*weights) == (i == 0)  # the first step has no past
    peer = point(5, 8)
    optimizer = stiefel.CayleySGD([peer], 0.05, momentum=0.9, iterations=5, norm="one")
    for i in range(2):
        give_gradient([peer], seed=i)
        optimizer.step()
    assert torch.equal(peer, weights[1])


def test_the_released_call_with_groups():
    rotation, free = point(6, 6), torch.nn.Parameter(torch.ones(3))
    optimizer = SGDG(
        [
            {"params": [rotation], "lr": 0.2, "momentum": 0.9, "stiefel": True},
            {"params": [free], "lr": 0.01, "momentum": 0.9, "weight_decay": 0.1, "nesterov": True},
        ]
    )
    peer = torch.nn.Parameter(torch.ones(3))
    sgd = torch.optim.SGD([peer], lr=0.01, momentum=0.9, weight_decay=0.1, nesterov=True)
    for i in range(3):
        give_gradient([rotation, free], seed=i)
        peer.grad = free.grad.clone()
        optimizer.step()
        sgd.step()
    assert torch.equal(free, peer)
    with pytest.warns(UserWarning, match="omega is 0.1 and has no effect"):
        SGDG([rotation], lr=0.1, stiefel=True, omega=0.1)
