"""What Python adds to a step: optimizer.step() beside the bare operators, on the weights of a network.

    OMP_NUM_THREADS=2 python3 python/benchmarks/step_benchmark.py --model wrn-16-4

The weights, gradients and rates are those of `stiefel bench step --model wrn-16-4 --methods cayley-sgd`,
whose time is that of the same step from C++: to be run in turns with this one. With --device cuda
all weights have one rate, and both are captured into CUDA graphs of 16 steps, in mixed precision, as the command does.
"""
import argparse
import statistics
import time
from typing import Callable, Dict, List, Optional, Tuple

import torch

import stiefel

MOMENTUM = 0.9
TURN = 0.1  # α‖W‖_F of the momentum, as training shows it at its first rate
STEPS_OF_GRAPH = 16
# The convolutions with as many inputs as outputs: c_out, c_in.
CONVOLUTIONS = {
    "wrn-16-4": [
        (16, 3),
        (64, 16),
        *[(64, 64)] * 3,
        (128, 64),
        *[(128, 128)] * 3,
        (256, 128),
        *[(256, 256)] * 3,
    ],
    "wrn-52-1": [(16, 3), *[(16, 16)] * 16, (32, 16), *[(32, 32)] * 15, (64, 32), *[(64, 64)] * 15],
}


def rate_of(weight: torch.Tensor, gradient: torch.Tensor) -> float:
    """The rate at which α‖W‖_F is TURN, ‖W‖²_F = 2‖M‖²_F − ‖XᴴM‖²_F of a momentum M of random gradients."""
    tangent = stiefel.project_tangent(weight, gradient).flatten(1)
    overlap = tangent @ weight.flatten(1).t()
    growth = (1 - MOMENTUM**2) ** -0.5
    return TURN / (growth * (2 * tangent.square().sum() - overlap.square().sum()).sqrt().item())


def seconds_of(work: Callable[[], None]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """16 times the work, as one CUDA graph."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(STEPS_OF_GRAPH):
            work()

    def replay() -> None:
        graph.replay()
        torch.cuda.synchronize()

    return replay


def measure(model: str, device: str, rounds: int) -> Tuple[List[float], List[float]]:
    groups: Dict[Optional[torch.Size], List[torch.nn.Parameter]] = {}
    for c_out, c_in in CONVOLUTIONS[model]:
        weight = torch.nn.Parameter(stiefel.init.haar_(torch.empty(c_out, c_in, 3, 3)).to(device))
        weight.grad = torch.randn_like(weight)
        groups.setdefault(weight.shape if device == "cpu" else None, []).append(weight)
    rates = [rate_of(weights[0].detach(), weights[0].grad) for weights in groups.values()]
    on_gpu = {"precision": "mixed", "capturable": True} if device == "cuda" else {}
    optimizer = stiefel.CayleySGD(
        [{"params": weights, "lr": rate} for weights, rate in zip(groups.values(), rates)],
        lr=0.1,
        momentum=MOMENTUM,
        **on_gpu,
    )
    options = {"precision": "mixed"} if device == "cuda" else {}
    # The same weights for the operators.
    counts = [torch.zeros((), dtype=torch.int64, device=device) for _ in range(2)]
    lists = []
    for weights, rate in zip(groups.values(), rates):
        points = [weight.detach().clone() for weight in weights]
        momenta = [torch.zeros_like(point) for point in points]
        gradients = [weight.grad for weight in weights]
        lists.append((points, momenta, gradients, counts[0], torch.tensor(rate, dtype=torch.float64, device=device)))

    def operators() -> None:
        for arguments in lists:
            torch.ops.stiefel.cayley_sgd_(*arguments, MOMENTUM, off_manifold=counts[1], **options)

    works: List[Callable[[], None]] = [optimizer.step, operators]
    steps = 1
    if device == "cuda":
        works, steps = [captured(work) for work in works], STEPS_OF_GRAPH
    times: List[List[float]] = [[] for _ in works]
    warm_up = 20
    for i in range(warm_up + rounds):
        for weights in groups.values():
            for weight in weights:
                weight.grad.normal_()
        for place in (0, 1) if i % 2 else (1, 0):
            if device == "cuda":
                torch.cuda.synchronize()
            seconds = seconds_of(works[place]) / steps
            if i >= warm_up:
                times[place].append(seconds)
    return times[0], times[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=CONVOLUTIONS, default="wrn-16-4")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    stepped, called = measure(arguments.model, arguments.device, arguments.rounds)
    ratio = statistics.median(a / b for a, b in zip(stepped, called))
    print(
        f"optimizer.step() {1000 * statistics.median(stepped):.4g} ms, operators"
        f" {1000 * statistics.median(called):.4g} ms, ratio {ratio:.3f}; {torch.get_num_threads()} threads"
    )


if __name__ == "__main__":
    main()
