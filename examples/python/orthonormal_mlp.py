"""A network with orthonormal hidden layers learns a known task, stops, and goes on from a file.

    python3 examples/python/orthonormal_mlp.py

Inputs are Gaussian; the label is the largest of five random directions' products with the input. Runs for a
few seconds on a CPU and exits with an error where a result is missed.
"""
import io
import sys

import torch

import stiefel

DIRECTIONS = torch.randn(5, 40, generator=torch.Generator().manual_seed(1))


def batch(seed, size=128):
    """Data as a function of the seed, so that a resumed run sees what an unbroken one does."""
    x = torch.randn(size, 40, generator=torch.Generator().manual_seed(seed))
    return x, (x @ DIRECTIONS.T).argmax(1)


def make():
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Linear(40, 40),
        torch.nn.ReLU(),
        torch.nn.Linear(40, 40),
        torch.nn.ReLU(),
        torch.nn.Linear(40, 5),
    )
    split = stiefel.split_parameters(net)  # the two hidden weights; the classifier keeps its scale
    for weight in split.manifold:
        stiefel.init.haar_(weight)
    optimizer = stiefel.CayleySGD(
        [
            {"params": split.manifold},
            {"params": split.euclidean, "manifold": "euclidean", "lr": 0.05, "nesterov": True},
        ],
        lr=0.2,
        momentum=0.9,
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=600)
    return net, split, optimizer, schedule


def train(net, optimizer, schedule, first, last):
    for step in range(first, last):
        x, y = batch(seed=step)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        if (step + 1) % 200 == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}")


net, split, optimizer, schedule = make()
train(net, optimizer, schedule, 0, 300)
file = io.BytesIO()
torch.save(
    {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}, file
)
train(net, optimizer, schedule, 300, 600)

x, y = batch(seed=10**6, size=10000)
error = (net(x).argmax(1) != y).float().mean().item()
defect = max(stiefel.defect(weight).item() for weight in split.manifold)
print(
    f"test error {100 * error:.1f} %, largest ‖XᵀX − I‖ {defect:.1e}, skipped steps"
    f" {optimizer.skipped_steps()}"
)

file.seek(0)
saved = torch.load(file)
second, _, optimizer2, schedule2 = make()
second.load_state_dict(saved["net"])
optimizer2.load_state_dict(saved["optimizer"])
schedule2.load_state_dict(saved["schedule"])
train(second, optimizer2, schedule2, 300, 600)
same = all(torch.equal(a, b) for a, b in zip(net.parameters(), second.parameters()))
print("resumed from the file:", "the same weights bit for bit" if same else "other weights")
sys.exit(0 if error < 0.1 and defect < 1e-5 and same else 1)
