#!/usr/bin/env python3
"""Graph-captured training steps of PyTorch, to set beside `stiefel bench training --device cuda` in the same run.

The same networks (VGG with batch norm and one linear layer, pre-activation Wide ResNets), batch 128, 32×32 images,
channels-last; forward, cross-entropy, backward and fused SGD with Nesterov momentum 0.9 and weight decay 5e-4 on
matrices, captured into one CUDA graph after warming up on a side stream. The batch is one fixed random batch on the device:
no gathering, no augmentation, no counting of losses and errors, all of which Stiefel's own step includes. With --compile the
network goes through torch.compile first, which takes up to a minute each.

    python3 bench/pytorch_baseline.py --models wrn-28-10,wrn-16-4 --precision tf32 --steps 200

With --optimizer cayley-sgd (or cayley-adam, cayley-muon) the optimizer is that of the stiefel package instead: the lines that
change in a program of PyTorch's are the import and those that make the optimizer.

    python3 bench/pytorch_baseline.py --models wrn-16-4 --precision bf16 --optimizer cayley-sgd

Needs PyTorch with CUDA, and for the latter the package (pip install .); not part of the tests.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

NETWORKS = "vgg-13,vgg-16,vgg-19,wrn-52-1,wrn-16-4,wrn-28-10"


def convolution(inputs, outputs, kernel, stride=1):
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Vgg(nn.Module):
    def __init__(self, depth, classes):
        super().__init__()
        counts = {13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}[depth]
        layers = []
        inputs = 3
        for count, width in zip(counts, (64, 128, 256, 512, 512)):
            for _ in range(count):
                layers += [convolution(inputs, width, 3), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
                inputs = width
            layers.append(nn.MaxPool2d(2))
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = convolution(inputs, outputs, 3, stride)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.conv2 = convolution(outputs, outputs, 3)
        self.shortcut = convolution(inputs, outputs, 1, stride) if inputs != outputs or stride != 1 else None

    def forward(self, x):
        first = F.relu(self.norm1(x), inplace=True)
        y = self.conv2(F.relu(self.norm2(self.conv1(first)), inplace=True))
        return y + (x if self.shortcut is None else self.shortcut(first))


class WideResNet(nn.Module):
    def __init__(self, depth, width, classes):
        super().__init__()
        self.stem = convolution(3, 16, 3)
        blocks = []
        inputs = 16
        for group in range(3):
            outputs = (16 << group) * width
            for i in range((depth - 4) // 6):
                blocks.append(Block(inputs, outputs, 2 if group > 0 and i == 0 else 1))
                inputs = outputs
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(inputs)
        self.head = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.relu(self.norm(self.blocks(self.stem(x))), inplace=True)
        return self.head(x.mean((2, 3)))


def network(name, classes=10):
    kind, *numbers = name.split("-")
    if kind == "vgg":
        return Vgg(int(numbers[0]), classes)
    return WideResNet(int(numbers[0]), int(numbers[1]), classes)


def torch_sgd(model):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.SGD([{"params": matrices, "weight_decay": 5e-4}, {"params": vectors}], lr=0.1, momentum=0.9,
                           nesterov=True, fused=True)


def cayley(name):
    """Of the stiefel package, by the same recipe, in mixed precision."""
    import stiefel

    kinds = {"cayley-sgd": (stiefel.CayleySGD, {"momentum": 0.9}), "cayley-adam": (stiefel.CayleyAdam, {}),
             "cayley-muon": (stiefel.CayleyMuon, {"momentum": 0.9})}

    def make(model):
        kind, options = kinds[name]
        split = stiefel.split_parameters(model)
        matrices = [p for p in split.euclidean if p.dim() >= 2]
        vectors = [p for p in split.euclidean if p.dim() < 2]
        euclidean = {"manifold": "euclidean", "lr": 0.01}
        return kind([{"params": split.manifold}, {"params": matrices, "weight_decay": 5e-4, **euclidean},
                     {"params": vectors, **euclidean}], lr=0.01 if name == "cayley-muon" else 0.2, precision="mixed",
                    capturable=True, **options)

    return make


OPTIMIZERS = {"sgd": torch_sgd, **{name: cayley(name) for name in ("cayley-sgd", "cayley-adam", "cayley-muon")}}


def measure(name, precision, batch, steps, compiled, make_optimizer):
    """Median milliseconds of a step, as a graph and launched kernel by kernel, in blocks of ten steps."""
    torch.manual_seed(1)
    model = network(name).cuda().to(memory_format=torch.channels_last)
    forward = torch.compile(model) if compiled else model
    optimizer = make_optimizer(model)
    images = torch.randn(batch, 3, 32, 32, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(10, (batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16", cache_enabled=False):
            scores = forward(images)
        F.cross_entropy(scores.float(), labels).backward()
        optimizer.step()

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def block_ms(act, count):
        seconds = []
        for _ in range(max(1, count // 10)):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(10):
                act()
            torch.cuda.synchronize()
            seconds.append((time.perf_counter() - start) / 10)
        return 1e3 * statistics.median(seconds)

    block_ms(graph.replay, 10)
    replayed = block_ms(graph.replay, steps)
    del graph
    block_ms(step, 10)
    return replayed, block_ms(step, min(steps, 30))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=NETWORKS, help=f"with commas between (default: {NETWORKS})")
    parser.add_argument("--precision", default="tf32", choices=("fp32", "tf32", "bf16"))
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=100, help="replays that are timed")
    parser.add_argument("--compile", action="store_true", help="through torch.compile")
    parser.add_argument("--optimizer", default="sgd", choices=OPTIMIZERS, help="torch's SGD, or one of stiefel's")
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = options.precision != "fp32"
    print(f"PyTorch {torch.__version__}, {torch.cuda.get_device_name()}, {options.optimizer}, {options.precision}, batch {options.batch}"
          + (", torch.compile" if options.compile else ""))
    print(f"{'network':12} {'graph, ms':>10} {'launched, ms':>12}")
    for name in options.models.split(","):
        replayed, launched = measure(name, options.precision, options.batch, options.steps, options.compile,
                                     OPTIMIZERS[options.optimizer])
        print(f"{name:12} {replayed:10.3f} {launched:12.3f}", flush=True)
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
