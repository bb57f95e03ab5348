"""Times one training step of networks that can be certified (docs/certified.md), by this library's optimizers, by
torch's orthogonal parametrization and with free weights.

    python3 examples/python/compare_certified_steps.py [--threads 1] [--rounds 30]

The networks are those of `--model lip-mlp-8x128` and `--model lip-6-64` for Fashion-MNIST, a step is forward,
backward and optimizer on a batch of 128 random images. All methods start from the same weights and take turns in
every round. A row has the median time in milliseconds, the median of its ratio to free weights in the same round,
the largest defect ‖WWᵀ − I‖ (‖WᵀW − I‖ of tall weights) at the end, and the loss of the first step, which is one
for all.
"""
import argparse
import copy
import statistics
import time

import torch
from torch.nn.functional import conv2d, cross_entropy, pixel_unshuffle
from torch.nn.utils import parametrizations

import stiefel

SIDE, CLASSES, TEMPERATURE = 32, 10, 2.0
FREE = "torch.optim.SGD, free weights"


def fold(x):
    first, second = x.chunk(2, 1)
    return torch.cat([first.abs(), second], 1)


def shift(x):
    """The middle half of the channels by a pixel, an eighth of all each down, right, up and left."""
    parts = list(x.chunk(8, 1))
    for i, (step, dim) in enumerate([(1, 2), (1, 3), (-1, 2), (-1, 3)], start=2):
        parts[i] = parts[i].roll(step, dim)
    return torch.cat(parts, 1)


def mix(layer, x):
    """The same mixing at every pixel; its bias is divided by the root of their number."""
    return conv2d(x, layer.weight[:, :, None, None], layer.bias / (x.size(2) * x.size(3)) ** 0.5)


class LipschitzMlp(torch.nn.Module):
    """lip-mlp-8x128: mixings and folds of the flattened image."""

    def __init__(self, depth=8, width=128):
        super().__init__()
        sizes = [SIDE * SIDE] + [width] * depth + [CLASSES]
        self.layers = torch.nn.ModuleList(map(torch.nn.Linear, sizes, sizes[1:]))

    def forward(self, x):
        x = self.layers[0](x.flatten(1))
        for layer in self.layers[1:]:
            x = layer(fold(x))
        return x


class LipschitzNet(torch.nn.Module):
    """lip-6-64: squares of 4×4 pixels become channels, mixings, folds and shifts, pooling, dense layers."""

    def __init__(self, depth=6, width=64):
        super().__init__()
        sizes = [16] + [width] * depth
        self.pixel = torch.nn.ModuleList(map(torch.nn.Linear, sizes, sizes[1:]))
        self.pool = torch.nn.Linear(16 * width, width)
        sizes = [4 * width, width, width, CLASSES]
        self.dense = torch.nn.ModuleList(map(torch.nn.Linear, sizes, sizes[1:]))

    def forward(self, x):
        x = pixel_unshuffle(x, 4)
        for layer in self.pixel:
            x = shift(fold(mix(layer, x)))
        x = mix(self.pool, pixel_unshuffle(x, 4)).flatten(1)
        for layer in self.dense:
            x = layer(fold(x))
        return x


def linears(net):
    return [module for module in net.modules() if isinstance(module, torch.nn.Linear)]


def free(net):
    return torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)


def by_optimizer(optimizer, rate):
    def prepare(net):
        groups = [
            {"params": [layer.weight for layer in linears(net)]},
            {"params": [layer.bias for layer in linears(net)], "manifold": "euclidean", "lr": 1e-3},
        ]
        return optimizer(groups, lr=rate, momentum=0.9)

    return prepare


def by_torch(name):
    def prepare(net):
        for layer in linears(net):
            parametrizations.orthogonal(layer, orthogonal_map=name)
        return free(net)

    return prepare


METHODS = {
    FREE: free,
    "stiefel.CayleySGD": by_optimizer(stiefel.CayleySGD, 1e-3),
    "stiefel.CayleyMuon": by_optimizer(stiefel.CayleyMuon, 1e-3),
    "torch orthogonal, its default": by_torch(None),
    "torch orthogonal, householder": by_torch("householder"),
    "torch orthogonal, cayley": by_torch("cayley"),
}


def largest_defect(net):
    return max(
        stiefel.defect(w if w.size(0) <= w.size(1) else w.t()).item()
        for w in (layer.weight.detach() for layer in linears(net))
    )


def measure(start, rounds):
    """Times by method, in milliseconds, the defect at the end and the loss of the first step."""
    runs = {}
    for name, prepare in METHODS.items():
        net = copy.deepcopy(start)
        runs[name] = (net, prepare(net), [], [])
    for i in range(rounds + 1):  # the first warms up
        seeded = torch.Generator().manual_seed(i)
        images = torch.randn(128, 1, SIDE, SIDE, generator=seeded)
        labels = torch.randint(CLASSES, (128,), generator=seeded)
        for net, optimizer, times, losses in runs.values():
            begin = time.perf_counter()
            optimizer.zero_grad()
            loss = cross_entropy(TEMPERATURE * net(images), labels)
            loss.backward()
            optimizer.step()
            times.append(1e3 * (time.perf_counter() - begin))
            losses.append(loss.item())
    return {
        name: (times[1:], largest_defect(net), losses[0]) for name, (net, _, times, losses) in runs.items()
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    for title, make in (("lip-mlp-8x128", LipschitzMlp), ("lip-6-64", LipschitzNet)):
        torch.manual_seed(0)
        start = make()
        for layer in linears(start):
            stiefel.init.haar_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
        results = measure(start, options.rounds)
        print(f"\n| {title} | ms | of free | ‖WWᵀ − I‖ | first loss |\n|---|---|---|---|---|")
        for name, (times, defect, loss) in results.items():
            ratio = statistics.median(a / b for a, b in zip(times, results[FREE][0]))
            print(f"| {name} | {statistics.median(times):.2f} | {ratio:.2f} | {defect:.0e} | {loss:.4f} |")


if __name__ == "__main__":
    main()
