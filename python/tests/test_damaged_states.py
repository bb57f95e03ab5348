"""Damaged states and files: refused with a message, and nothing has changed. STIEFEL_FUZZ_CASES says how many states of each
optimizer are damaged; each is damaged by a seed of its own, so that a failure repeats."""
import copy
import math
import os
import random

import pytest
import stiefel
import torch
from stiefel._library import _read_build
from support import give_gradient, optimizers, point

CASES = int(os.environ.get("STIEFEL_FUZZ_CASES", "60"))
REFUSALS = (ValueError, TypeError, KeyError, RuntimeError)


def make(name):
    manifold = [
        point(2, 3, dtype=torch.float32, seed=1),
        point(2, 2, dtype=torch.complex128, seed=2),
        torch.nn.Parameter(point(3, 2, dtype=torch.float32, seed=3).detach().bfloat16()),
    ]
    free = [torch.nn.Parameter(torch.ones(3))]
    euclidean = {"params": free, "stiefel": False} if name == "SGDG" else {"params": free, "manifold": "euclidean"}
    return manifold + free, optimizers()[name]([{"params": manifold}, euclidean])


def places(tree):
    """Every (folder, key) of a state."""
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from places(value)


def other(value, draw):
    if isinstance(value, torch.Tensor) and draw.random() < 0.5:
        return draw.choice(
            [value.flatten(), value[..., :0] if value.dim() else value.reshape(1), value.double(), value.to(torch.int64),
             torch.full_like(value, math.nan), torch.ones(2, 3, 4), value.to(torch.complex64)]
        )
    return draw.choice([None, 0, -1, 1.5, math.nan, math.inf, 1e300, 2**62, "", "euclidean", "\x1b[31m", "x" * 100000, [], {},
                        [1], {"a": 1}, torch.ones(()), torch.ones(2), True])


def damage(state, draw):
    for _ in range(draw.randint(1, 3)):
        folder, key = draw.choice(list(places(state)) or [(state, "state")])
        if draw.random() < 0.3:
            del folder[key]
        else:
            folder[key] = other(folder[key], draw)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(same, a, b))
    return a == b


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", optimizers())
def test_a_damaged_state_is_refused_whole(name):
    parameters, optimizer = make(name)
    give_gradient(parameters, seed=0)
    optimizer.step()
    whole = copy.deepcopy(optimizer.state_dict())
    for seed in range(CASES):
        damaged = copy.deepcopy(whole)
        damage(damaged, random.Random(seed))
        parameters, second = make(name)
        give_gradient(parameters, seed=1)
        second.step()
        before = copy.deepcopy(second.state_dict())
        try:
            second.load_state_dict(damaged)
        except REFUSALS as error:
            assert str(error), f"seed {seed}: no message"
            assert same(before, second.state_dict()), f"seed {seed}: half loaded"
            second.step()
            continue
        try:
            second.step()
        except REFUSALS:
            pass


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"3", b"\xff\xfe", b'{"version": 1, "torch": "1.13"}', b'{"torch": "1.13"}', b"[" * 100000]
)
def test_a_damaged_libstiefel_json_is_named(tmp_path, content):
    (tmp_path / "libstiefel.json").write_bytes(content)
    with pytest.raises(ImportError, match="libstiefel.json is damaged"):
        _read_build(tmp_path / "libstiefel.so")
