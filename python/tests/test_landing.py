"""POGO and landing, which come near the manifold without a retraction: against dense formulas."""
import pytest
import stiefel
import torch
from support import give_gradient, point


def relative(x, d):
    """skew(DXᴴ)X of a tall X."""
    return 0.5 * (d @ x.mH - x @ d.mH) @ x


def off(x):
    return x.mH @ x - torch.eye(x.shape[1], dtype=x.dtype)


def pogo(x, d, rate):
    y = x - rate * relative(x, d)
    return y - 0.5 * y @ off(y)


def landing(x, d, rate):
    e = off(x)
    field = relative(x, d) + x @ e
    far, squared = torch.linalg.norm(e).item(), torch.linalg.norm(field).item() ** 2
    pull = far * (1 - far)
    longest = (pull + (pull**2 + squared * (0.5 - far)) ** 0.5) / squared
    return x - min(rate, longest, 0.5) * field


STEPS = {"pogo": pogo, "landing": landing}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128])
@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("shape", [(4, 11), (11, 4), (6, 6)])
@pytest.mark.parametrize("name", STEPS)
def test_steps_are_the_dense_ones(name, shape, momentum, dtype):
    weight = point(*shape, dtype=dtype)
    optimizer = stiefel.RetractionSGD([weight], 0.15, name, momentum=momentum)

    def tall(t):
        t = t.detach().clone()
        return t.mH if shape[0] <= shape[1] else t

    x = tall(weight)
    m = torch.zeros_like(x)
    for i in range(8):
        give_gradient([weight], seed=i)
        m = momentum * m + tall(weight.grad)
        m = m - x @ (x.mH @ m + m.mH @ x) / 2
        x = STEPS[name](x, m, 0.15)
        optimizer.step()
    assert (tall(weight) - x).abs().max().item() < 1e-12
    assert optimizer.skipped_steps() == 0


def test_landing_leaves_the_manifold_by_its_bound_at_most():
    weight = point(5, 9, dtype=torch.float32)
    optimizer = stiefel.RetractionSGD([weight], 0.4, "landing")
    worst = 0.0
    for i in range(50):
        give_gradient([weight], seed=i, scale=10.0 ** (i % 4 - 1))
        optimizer.step()
        worst = max(worst, stiefel.defect(weight).item())
    assert 0.25 < worst < 0.5001


def test_a_resumed_landing_keeps_what_is_off_the_manifold():
    weight = point(5, 9)
    optimizer = stiefel.RetractionSGD([weight], 0.3, "landing", momentum=0.9)
    give_gradient([weight], seed=1)
    optimizer.step()
    assert stiefel.defect(weight).item() > 1e-2
    other = torch.nn.Parameter(weight.detach().clone())
    resumed = stiefel.RetractionSGD([other], 0.3, "landing", momentum=0.9)
    resumed.load_state_dict(optimizer.state_dict())
    assert torch.equal(other, weight)
    give_gradient([weight, other], seed=2)
    other.grad = weight.grad.clone()
    optimizer.step()
    resumed.step()
    assert torch.equal(other, weight)
