"""Steps of the installed library from Python, against the paper's Algorithm 1 with its n×n matrix.

    python3 python_test.py PREFIX/lib/libstiefel.so
"""
import sys

import torch

torch.ops.load_library(sys.argv[1])
torch.manual_seed(1)


def dense_step(x, m, g, rate, beta):
    """x, m, g are p×n; the step of the paper, then the polar factor."""
    big_x, big_m = x.mH, (beta * m + g).mH
    half = big_m @ x - 0.5 * big_x @ (x @ big_m @ x)
    w = half - half.mH
    alpha = -min(rate, 1 / (w.norm().item() + 1e-8))
    y = big_x + alpha * w @ big_x
    for _ in range(2):
        y = big_x + alpha / 2 * w @ (big_x + y)
    u, _, vh = torch.linalg.svd(y, full_matrices=False)
    return (u @ vh).mH, (w @ big_x).mH


for dtype in (torch.float64, torch.complex128):
    x = torch.linalg.qr(torch.randn(40, 12, dtype=dtype))[0].mH.resolve_conj().contiguous()
    m = torch.zeros_like(x)
    want_x, want_m = x.clone(), m.clone()
    skipped = torch.zeros((), dtype=torch.int64)
    rate = torch.tensor(0.05, dtype=torch.float64)
    for _ in range(10):
        g = torch.randn_like(x) * 0.1
        torch.ops.stiefel.cayley_sgd_([x], [m], [g], skipped, rate, 0.9)
        want_x, want_m = dense_step(want_x, want_m, g, 0.05, 0.9)
    error = max((x - want_x).abs().max().item(), (m - want_m).abs().max().item())
    defect = torch.ops.stiefel.defect(x).item()
    print(f"{dtype}: difference {error:.1e}, defect {defect:.1e}")
    assert error < 1e-12 and defect < 1e-13

weights = [torch.ops.stiefel.orthonormalize_(torch.randn(4, 6)) for _ in range(3)]
state = [[torch.zeros_like(w) for w in weights]] + [
    [torch.zeros((), dtype=torch.float64) for _ in weights] for _ in range(2)]
gradients = [torch.randn_like(w) for w in weights]
gradients[1][0, 0] = float("nan")
before = weights[1].clone()
torch.ops.stiefel.cayley_adam_(weights, *state, gradients, skipped, rate)
assert skipped.item() == 1 and torch.equal(weights[1], before)
assert [k.item() for k in state[2]] == [1, 0, 1]

# One meaning of a shape for every operator: a convolution's weight is one matrix, whatever its memory format.
weight = torch.ops.stiefel.orthonormalize_(torch.randn(8, 3, 3, 3, dtype=torch.float64))
gradient = torch.randn_like(weight)
rate = torch.tensor(0.1, dtype=torch.float64)
results = []
for memory_format in (torch.contiguous_format, torch.channels_last):
    x, g = weight.clone().contiguous(memory_format=memory_format), gradient.contiguous(memory_format=memory_format)
    torch.ops.stiefel.cayley_sgd_([x], [torch.zeros_like(x)], [g], skipped, rate, 0.9)
    assert torch.ops.stiefel.defect(x).item() < 1e-13 and (x - weight).abs().max() > 1e-3
    results.append(x)
assert (results[0] - results[1]).abs().max() < 1e-14
stack = torch.ops.stiefel.orthonormalize_(torch.randn(5, 4, 6), batched=True)
torch.ops.stiefel.cayley_sgd_([stack], [torch.zeros_like(stack)], [torch.randn_like(stack)], skipped, rate, 0.9,
                              batched=True)
assert torch.ops.stiefel.defect(stack, batched=True).max() < 1e-6

# A matrix off the manifold is left and counted; without a counter of its own the error says which.
far, moved = weight * 5, weight.clone()
counts = torch.zeros(2, dtype=torch.int64)
lists = [[far, moved], [torch.zeros_like(far), torch.zeros_like(far)], [gradient, gradient]]
torch.ops.stiefel.cayley_sgd_(*lists, counts[0], rate, 0.9, off_manifold=counts[1])
assert counts.tolist() == [1, 1] and torch.equal(far, weight * 5) and not torch.equal(moved, weight)
try:
    torch.ops.stiefel.cayley_sgd_(*lists, counts[0], rate, 0.9)
    raise SystemExit("no error was raised for a matrix off the manifold")
except RuntimeError as error:
    assert "[8, 3, 3, 3]" in str(error) and "orthonormalize_" in str(error), error
print("Python calls the operators")
