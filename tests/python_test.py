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
print("Python calls the operators")
