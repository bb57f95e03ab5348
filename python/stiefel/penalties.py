"""Soft orthonormality: penalties to add to a loss (Bansal, Chen, Wang, NeurIPS 2018).

A weight is read as :mod:`stiefel.manifold` says: K is p×n with p ≤ n, and E = KKᴴ − I. Each function takes
one weight or a list of weights of any shapes on one device, and returns the sum as a 0-dim tensor that can be
differentiated once. One call for a whole network is faster than one per layer.

    loss = criterion(net(x), y) + 1e-4 * stiefel.penalties.so(split.manifold)
"""
from typing import Iterable, List, Optional, Union

import torch
from torch import Tensor

__all__ = ["dso", "penalty", "so", "srip"]

Weights = Union[Tensor, Iterable[Tensor]]


def _as_list(weights: Weights) -> List[Tensor]:
    return [weights] if isinstance(weights, Tensor) else list(weights)


def penalty(
    kind: str,
    weights: Weights,
    *,
    rounds: int = 2,
    batched: bool = False,
    generator: Optional[torch.Generator] = None,
) -> Tensor:
    """The penalty called ``kind``: "so", "dso" or "srip". ``rounds`` and ``generator`` are SRIP's."""
    return torch.ops.stiefel.penalty(_as_list(weights), kind, rounds, batched, generator)


def so(weights: Weights, batched: bool = False) -> Tensor:
    """SO = ‖KKᴴ − I‖²_F, with the gradient 4(KKᴴ − I)K."""
    return penalty("so", weights, batched=batched)


def dso(weights: Weights, batched: bool = False) -> Tensor:
    """DSO = ‖KKᴴ − I‖²_F + ‖KᴴK − I‖²_F = 2·SO + n − p. It never falls below n − p."""
    return penalty("dso", weights, batched=batched)


def srip(
    weights: Weights, rounds: int = 2, batched: bool = False, generator: Optional[torch.Generator] = None
) -> Tensor:
    """SRIP: an estimate of ‖KKᴴ − I‖₂ from below by ``rounds`` rounds of power iteration, u = Ev, σ = ‖u‖,
    v = u/σ, from a random v; the gradient is that of the whole iteration, with its start held fixed."""
    return penalty("srip", weights, rounds=rounds, batched=batched, generator=generator)
