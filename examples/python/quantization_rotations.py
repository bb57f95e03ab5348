"""Learns rotations that make a small transformer easier to quantize to 4 bits, as SpinQuant does
(Liu et al. 2024, https://arxiv.org/abs/2405.16406).

    python3 examples/python/quantization_rotations.py [--bits 4 3] [--online] [--seed 0] [--quick]

A matrix is rounded with one step per row, and a vector of activations with one step in all. Where a few
entries are much larger than the others they set that step, and the others lose their digits. A rotation
spreads the large entries over all of them. A transformer has two places where any orthogonal matrix can be
inserted, and undone by the next matrix, without changing what the network computes:

- R1, of the hidden size, rotates the residual stream. RMSNorm without a scale commutes with it, because
  ‖xR1‖ = ‖x‖; a scale could be folded into the matrices that read the stream.
- R2, of the head size and one per layer, rotates the values of every head. Attention takes weighted sums of
  values, which commute with it.

Both are merged into the weights, so that the rotated network costs nothing extra. The program

1. trains a decoder-only transformer on bytes: the licenses that Debian's base-files installs. The last 18 %
   of them, which in Debian 12 are the two Mozilla licenses, are for validation;
2. checks that rotations do not change the function of the float network;
3. rounds weights and activations to 4 bits: without rotations, with random Hadamard and Haar rotations, and
   with rotations that are learned by three optimizers. Each starts from the same Hadamard matrices and
   minimizes the cross-entropy of the rounded network on the training text;
4. prints the cross-entropy on the validation text, in nats per byte.

Embedding, attention scores and the last matrix stay in float. The input of the MLP's second matrix comes
from a nonlinearity, so no rotation of it can be merged into the weights before. It is rounded as it is, or,
with --online, after a product with a fixed Hadamard matrix R4 that the network computes as it runs.
"""
import argparse
import math
import statistics
import time
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy, gelu

import stiefel
from stiefel.compat import SGDG

HIDDEN, LAYERS, HEADS = 128, 3, 4
HEAD_SIZE = HIDDEN // HEADS


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    parser.add_argument(
        "--bits", type=int, nargs="+", default=[4], help="of weights and activations; a table for each"
    )
    parser.add_argument("--steps", type=int, default=100, help="of learning rotations")
    parser.add_argument("--train-steps", type=int, default=400, help="of training the network")
    parser.add_argument("--lr", type=float, default=0.5, help="of SGDG and CayleySGD")
    parser.add_argument("--lr-muon", type=float, default=0.005, help="of CayleyMuon, an angle in radians")
    parser.add_argument("--momentum", type=float, default=0.9, help="of the three optimizers")
    parser.add_argument("--draws", type=int, default=5, help="of random rotations, whose mean is shown")
    parser.add_argument("--seed", type=int, default=0, help="of all randomness")
    parser.add_argument(
        "--text", default="/usr/share/common-licenses", help="a text file, or a folder of them"
    )
    parser.add_argument("--threads", type=int, default=1, help="of the CPU")
    parser.add_argument(
        "--online", action="store_true", help="rotate the input of the MLP's second matrix too"
    )
    parser.add_argument("--quick", action="store_true", help="a few steps only, to see that it runs")
    options = parser.parse_args()
    options.batch, options.context, options.windows = 16, 128, 64
    if options.quick:
        options.train_steps, options.steps, options.draws = 20, 3, 2
        options.batch, options.context, options.windows = 4, 32, 4
    return options


class Text:
    """The bytes of all files in the order of their names, the last 18 % of them for validation."""

    def __init__(self, path, options):
        path = Path(path)
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        files = [f for f in files if f.is_file() and not f.is_symlink()]  # the links are to other licenses
        data = torch.tensor(list(b"".join(f.read_bytes() for f in files)))
        split = int(0.82 * len(data))
        self.train, self.held_out, self.options = data[:split], data[split:], options

    def batch(self, size, purpose, step):
        """Windows of the training text, as a function of the seed, the purpose and the step."""
        seed = (2 * self.options.seed + purpose) * 10**6 + step
        generator = torch.Generator().manual_seed(seed)
        starts = torch.randint(len(self.train) - self.options.context, (size, 1), generator=generator)
        return self.train[starts + torch.arange(self.options.context + 1)]

    def validation(self):
        """Windows of the validation text at equal distances."""
        starts = torch.linspace(0, len(self.held_out) - self.options.context - 1, self.options.windows).long()
        return self.held_out[starts[:, None] + torch.arange(self.options.context + 1)]


def make_weights(seed):
    """Matrices W of shape (out, in), for y = xWᵀ; those of the layers are a list of dicts."""
    generator = torch.Generator().manual_seed(seed)

    def normal(out, size, gain=1.0):
        return (gain / math.sqrt(size) * torch.randn(out, size, generator=generator)).requires_grad_()

    small = 1 / math.sqrt(2 * LAYERS)  # of what is added to the stream
    layers = [
        {
            "query": normal(HIDDEN, HIDDEN),
            "key": normal(HIDDEN, HIDDEN),
            "value": normal(HIDDEN, HIDDEN),
            "output": normal(HIDDEN, HIDDEN, small),
            "up": normal(4 * HIDDEN, HIDDEN),
            "down": normal(HIDDEN, 4 * HIDDEN, small),
        }
        for _ in range(LAYERS)
    ]
    return {"embedding": normal(256, HIDDEN), "layers": layers, "head": normal(256, HIDDEN)}


def all_matrices(weights):
    of_layers = [w for layer in weights["layers"] for w in layer.values()]
    return [weights["embedding"], *of_layers, weights["head"]]


def rms_norm(x):
    return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt()


def rotary(x):
    """Rotary position embedding: turns pairs of coordinates of a query or key by angles ∝ its position."""
    half = x.shape[-1] // 2
    angles = torch.arange(x.shape[-2])[:, None] * 1000.0 ** (-torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1)


def forward(weights, tokens, rounded=lambda x: x):
    """Logits for the next byte; ``rounded`` is applied to the matrices of every layer and to their inputs."""

    def linear(x, w):
        return rounded(x) @ rounded(w).T

    def split(x):  # (batch, position, hidden) → (batch, head, position, head size)
        return x.unflatten(-1, (HEADS, HEAD_SIZE)).transpose(1, 2)

    future = torch.ones(tokens.shape[1], tokens.shape[1], dtype=torch.bool).triu(1)
    x = weights["embedding"][tokens]
    for layer in weights["layers"]:
        y = rms_norm(x)
        q, k = rotary(split(linear(y, layer["query"]))), rotary(split(linear(y, layer["key"])))
        scores = (q @ k.transpose(-1, -2) / math.sqrt(HEAD_SIZE)).masked_fill(future, -math.inf)
        mixed = scores.softmax(-1) @ split(linear(y, layer["value"]))
        x = x + linear(mixed.transpose(1, 2).flatten(-2), layer["output"])
        y = gelu(linear(rms_norm(x), layer["up"]))
        x = x + linear(y @ layer["online"] if "online" in layer else y, layer["down"])
    return rms_norm(x) @ weights["head"].T


def loss_of(weights, windows, rounded=lambda x: x):
    return cross_entropy(forward(weights, windows[:, :-1], rounded).flatten(0, 1), windows[:, 1:].flatten())


def make_rounding(bits):
    """Symmetric rounding to nearest with one step per row, that is per output channel of a weight and per
    token of activations: the largest entry of a row is ±(2ᵇ⁻¹ − 1) steps."""
    levels = 2 ** (bits - 1) - 1

    def rounded(x):
        step = x.abs().amax(-1, keepdim=True).clamp(min=1e-8) / levels
        scaled = x / step
        # Straight-through: the derivative of rounding is taken as 1; the step has its own.
        return step * (scaled + (scaled.round() - scaled).detach())

    return rounded


def rotate(weights, r1, r2, r4=None):
    """The weights with the rotations merged. The stream x becomes xR1 and a head's values v become vR2, so
    matrices that read the stream become WR1, and those that write it R1ᵀW."""

    def rotated(layer, r):
        value = layer["value"].unflatten(0, (HEADS, HEAD_SIZE))  # (head, head size, hidden)
        output = layer["output"].unflatten(1, (HEADS, HEAD_SIZE))  # (hidden, head, head size)
        result = {
            "query": layer["query"] @ r1,
            "key": layer["key"] @ r1,
            "value": (r.T @ value).flatten(0, 1) @ r1,  # R2ᵀ Wv R1, head by head
            "output": r1.T @ (output @ r).flatten(1),  # R1ᵀ Wo R2
            "up": layer["up"] @ r1,
            "down": r1.T @ layer["down"],
        }
        if r4 is not None:  # (yR4)(WR4)ᵀ = yWᵀ
            result.update(down=result["down"] @ r4, online=r4)
        return result

    return {
        "embedding": weights["embedding"] @ r1,
        "layers": [rotated(layer, r) for layer, r in zip(weights["layers"], r2)],
        "head": weights["head"] @ r1,
    }


def random_rotations(kind, seed, online=False):
    """R1, R2 of every layer, and R4 or None. Haar, or Hadamard with a random sign for each row; R4 is
    Hadamard."""
    generator = torch.Generator().manual_seed(seed)

    def draw(size):
        if kind == "Haar":
            return stiefel.init.haar_(torch.empty(size, size), generator=generator)
        signs = torch.randint(2, (size, 1), generator=generator) * 2 - 1
        return signs * stiefel.init.hadamard_(torch.empty(size, size))

    r4 = stiefel.init.hadamard_(torch.empty(4 * HIDDEN, 4 * HIDDEN)) if online else None
    return draw(HIDDEN), [draw(HEAD_SIZE) for _ in range(LAYERS)], r4


def train(text, options):
    """The float network, by AdamW with warm-up and a cosine."""
    weights = make_weights(options.seed)
    optimizer = torch.optim.AdamW(all_matrices(weights), lr=3e-3, betas=(0.9, 0.98), weight_decay=0.05)
    total = options.train_steps
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, (step + 1) / 50) * 0.5 * (1 + math.cos(math.pi * step / total))
    )
    for step in range(total):
        optimizer.zero_grad()
        loss = loss_of(weights, text.batch(options.batch, 0, step))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(all_matrices(weights), 1.0)
        optimizer.step()
        schedule.step()
        if (step + 1) % 100 == 0:
            print(f"training, step {step + 1}: cross-entropy {loss.item():.3f}", flush=True)
    for matrix in all_matrices(weights):
        matrix.requires_grad_(False)
    return weights


def learn(weights, start, make_optimizer, text, rounded, options):
    """R1 and R2 that lower the loss of the rounded network, and the milliseconds of an optimizer step."""
    r1, r2, r4 = start[0].clone().requires_grad_(), [r.clone().requires_grad_() for r in start[1]], start[2]
    optimizer = make_optimizer([r1, *r2])
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1 - step / options.steps)
    times = []
    for step in range(options.steps):
        optimizer.zero_grad()
        windows = text.batch(options.batch // 2, 1, step)
        loss_of(rotate(weights, r1, r2, r4), windows, rounded).backward()
        begin = time.perf_counter()
        optimizer.step()
        times.append(1e3 * (time.perf_counter() - begin))
        schedule.step()
    return (r1.detach(), [r.detach() for r in r2], r4), statistics.median(times)


def check_function(weights, windows, draws):
    """Rotations leave the output of the float network as it is, to rounding."""
    expected = forward(weights, windows[:, :-1])
    for kind, rotations in draws.items():
        change = (forward(rotate(weights, *rotations[0]), windows[:, :-1]) - expected).abs().max()
        change = (change / expected.abs().max()).item()
        print(f"float, {kind} rotations: largest change of a logit {change:.1e} of the largest logit")
        assert change < 1e-4, "rotations must not change the function"


def print_table(weights, text, draws, bits, options):
    windows, rounded = text.validation(), make_rounding(bits)

    def evaluate(rotations=None, rounding=rounded):
        with torch.no_grad():
            return loss_of(rotate(weights, *rotations) if rotations else weights, windows, rounding).item()

    def row(name, loss, span="", step="", defect=""):
        print(f"{name:<24}{loss:>14}{span:>20}{step:>12}{defect:>14}".rstrip(), flush=True)

    row(f"{bits} bits", "cross-entropy", "range of draws", "ms per step", "‖RᵀR − I‖")
    row("float, no rotations", f"{evaluate(rounding=lambda x: x):.4f}")
    row("no rotations", f"{evaluate():.4f}")
    for kind, rotations in draws.items():
        losses = [evaluate(r) for r in rotations]
        row(f"random {kind}", f"{statistics.mean(losses):.4f}", f"{min(losses):.4f} … {max(losses):.4f}")
    row("the start of learning", f"{evaluate(draws['Hadamard'][0]):.4f}")
    optimizers = {
        "compat.SGDG": lambda p: SGDG(p, lr=options.lr, momentum=options.momentum, stiefel=True),
        "CayleySGD": lambda p: stiefel.CayleySGD(p, lr=options.lr, momentum=options.momentum),
        "CayleyMuon": lambda p: stiefel.CayleyMuon(p, lr=options.lr_muon, momentum=options.momentum),
    }
    for name, make_optimizer in optimizers.items():
        rotations, step = learn(weights, draws["Hadamard"][0], make_optimizer, text, rounded, options)
        defect = max(stiefel.defect(r).item() for r in (rotations[0], *rotations[1]))
        row(f"learned, {name}", f"{evaluate(rotations):.4f}", "", f"{step:.2f}", f"{defect:.0e}")


def main():
    options = parse_options()
    torch.set_num_threads(options.threads)
    text = Text(options.text, options)
    weights = train(text, options)
    draws = {
        kind: [random_rotations(kind, 1000 * options.seed + i, options.online) for i in range(options.draws)]
        for kind in ("Hadamard", "Haar")
    }
    check_function(weights, text.validation(), draws)
    for bits in options.bits:
        print_table(weights, text, draws, bits, options)


if __name__ == "__main__":
    main()
