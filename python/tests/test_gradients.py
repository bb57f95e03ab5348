"""Half weights, gradients that are not finite, and scaled losses."""
import pytest
import stiefel
import torch
from support import give_gradient, optimizers, point


@pytest.mark.parametrize("name", optimizers())
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_weights_follow_a_float_master(name, dtype):
    exact = point(8, 12, dtype=torch.float32)
    half = torch.nn.Parameter(exact.detach().to(dtype))
    optimizer = optimizers()[name]([half])
    # The same steps in float, from the master's start.
    free = torch.nn.Parameter(optimizer.state[half]["master"].clone())
    peer = optimizers()[name]([free])
    for i in range(20):
        give_gradient([half], seed=i)
        free.grad = half.grad.float()
        optimizer.step()
        peer.step()
    master = optimizer.state[half]["master"]
    assert half.dtype == dtype and master.dtype == torch.float32
    assert torch.equal(master, free.detach())
    assert torch.equal(half.detach(), master.to(dtype))
    assert stiefel.defect(master).item() < 1e-5


def test_a_half_weight_that_was_written_becomes_its_master():
    half = torch.nn.Parameter(point(8, 12, dtype=torch.float32).detach().bfloat16())
    optimizer = stiefel.CayleySGD([half], lr=0.0)
    other = point(8, 12, dtype=torch.float32, seed=7).detach().bfloat16()
    with torch.no_grad():
        half.copy_(other)
    give_gradient([half], seed=0)
    optimizer.step()
    master = optimizer.state[half]["master"]
    assert (master - other.float()).abs().max().item() < 0.01 and stiefel.defect(master).item() < 1e-5


@pytest.mark.parametrize("name", optimizers())
@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_matrix_with_a_bad_gradient_stays(name, bad):
    weights = [point(4, 6, seed=i) for i in range(3)]
    optimizer = optimizers()[name](weights)
    give_gradient(weights, seed=0)
    optimizer.step()
    before = [w.detach().clone() for w in weights]
    state = {k: v.clone() for k, v in optimizer.state[weights[1]].items()}
    give_gradient(weights, seed=1)
    weights[1].grad[0, 0] = bad
    optimizer.step()
    assert [torch.equal(a, b) for a, b in zip(weights, before)] == [False, True, False]
    assert all(torch.equal(v, optimizer.state[weights[1]][k]) for k, v in state.items())
    assert optimizer.skipped_steps() == 1
    assert optimizer.state_dict()["stiefel"]["skipped_steps"] == 1


def test_one_matrix_of_a_stack_stays():
    stack = point(5, 4, 6, batched=True)
    optimizer = stiefel.CayleyAdam([stack], lr=0.1, batched=True)
    before = stack.detach().clone()
    give_gradient([stack], seed=0)
    stack.grad[2, 1, 1] = float("nan")
    optimizer.step()
    assert [torch.equal(a, b) for a, b in zip(stack, before)] == [False, False, True, False, False]
    assert optimizer.state[stack]["step"].tolist() == [1, 1, 0, 1, 1]


def test_a_loss_scaled_too_far_is_recovered_from():
    """What GradScaler does: scale, unscale in place, halve the scale where a gradient is not finite. A step
    that it lets through leaves a matrix with a bad gradient where it is."""
    weight = torch.nn.Parameter(point(6, 8, dtype=torch.float32).detach().half())
    target = point(6, 8, dtype=torch.float32, seed=3).detach()
    optimizer = stiefel.CayleySGD([weight], lr=0.05, momentum=0.9)
    scale, losses, refused = 2.0**20, [], 0
    for _ in range(60):
        optimizer.zero_grad()
        loss = (weight.float() - target).square().sum()
        (loss * scale).backward()
        weight.grad.div_(scale)
        finite = torch.isfinite(weight.grad).all().item()
        before = weight.detach().clone()
        optimizer.step()
        if not finite:
            refused += 1
            scale /= 2
            assert torch.equal(weight, before)
        losses.append(loss.item())
    assert refused > 0 and optimizer.skipped_steps() == refused
    assert losses[-1] < 0.3 * losses[0]
