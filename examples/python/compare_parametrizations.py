"""Times one training step of an orthonormal weight by this library's optimizers and by parametrizations,
torch's among them.

    python3 examples/python/compare_parametrizations.py [--threads 1] [--rounds 15]

A step is what the constraint costs: the weight from its parameter, a loss that is linear in the weight,
backward, the optimizer. All methods take turns in every round; the table has the median time in milliseconds
and the defect ‖XXᵀ − I‖ at the end.
"""
import argparse
import statistics
import time

import torch
from torch.nn.utils import parametrizations, parametrize

import stiefel

SHAPES = [(256, 256), (64, 576), (128, 1152)]


def plain(layer):
    return torch.optim.SGD(layer.parameters(), lr=0.01, momentum=0.9)


def by_optimizer(make):
    return lambda layer: make(layer.parameters())


def by_torch(name):
    def prepare(layer):
        parametrizations.orthogonal(layer, orthogonal_map=name)
        return plain(layer)

    return prepare


def by_stiefel(name):
    def prepare(layer):
        parametrize.register_parametrization(layer, "weight", stiefel.nn.Orthonormal(name))
        return plain(layer)

    return prepare


METHODS = {
    "SGD, no constraint": plain,
    "stiefel.CayleySGD": by_optimizer(lambda p: stiefel.CayleySGD(p, lr=0.01, momentum=0.9)),
    "stiefel.CayleyAdam": by_optimizer(lambda p: stiefel.CayleyAdam(p, lr=0.01)),
    'stiefel.RetractionSGD, "qr"': by_optimizer(lambda p: stiefel.RetractionSGD(p, 0.01, "qr", momentum=0.9)),
    'stiefel.RetractionSGD, "polar"': by_optimizer(
        lambda p: stiefel.RetractionSGD(p, 0.01, "polar", momentum=0.9)
    ),
    "torch orthogonal, householder": by_torch("householder"),
    "torch orthogonal, cayley": by_torch("cayley"),
    "torch orthogonal, matrix_exp": by_torch("matrix_exp"),
    "stiefel.nn.Orthonormal, householder": by_stiefel("householder"),
    "stiefel.nn.Orthonormal, cayley": by_stiefel("cayley"),
    "stiefel.nn.Orthonormal, matrix-exp": by_stiefel("matrix-exp"),
}


def measure(shape, rounds):
    """Milliseconds per step and the defect at the end, by method."""
    runs = {}
    for name, prepare in METHODS.items():
        torch.manual_seed(0)
        layer = torch.nn.Linear(shape[1], shape[0], bias=False)
        if name != "SGD, no constraint":
            stiefel.init.haar_(layer.weight)
        runs[name] = (layer, prepare(layer), [])
    for i in range(rounds + 2):
        slope = torch.randn(shape, generator=torch.Generator().manual_seed(i))
        for layer, optimizer, times in runs.values():
            begin = time.perf_counter()
            optimizer.zero_grad()
            (layer.weight * slope).sum().backward()
            optimizer.step()
            times.append(1e3 * (time.perf_counter() - begin))
    return {
        name: (statistics.median(times[2:]), stiefel.defect(layer.weight.detach()).item())
        for name, (layer, _, times) in runs.items()
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = [measure(shape, options.rounds) for shape in SHAPES]
    print("| method | " + " | ".join(f"{p}×{n} | ‖XXᵀ − I‖" for p, n in SHAPES) + " |")
    print("|---" * (1 + 2 * len(SHAPES)) + "|")
    for name in METHODS:
        cells = [f"{result[name][0]:.2f} | {result[name][1]:.0e}" for result in results]
        print(f"| {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
