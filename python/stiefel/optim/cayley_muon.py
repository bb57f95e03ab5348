"""Cayley Muon."""
from typing import ClassVar, Optional

import torch
from torch import Tensor

from .manifold_optimizer import Batch, Counters, Group, Params
from .sgd_family import SGDFamily, waits_in_cayley_step


class CayleyMuon(SGDFamily):
    r"""Cayley Muon for groups on the Stiefel manifold, and torch.optim.SGD for Euclidean ones.

    The direction is the polar factor of the momentum, made tangent, so that the rate is an angle::

        M ← βM + G, projected onto the tangent space at X
        D = MK − XN,   K ≈ (MᴴM)^(−½),   N = ½(XᴴMK + (XᴴMK)ᴴ)
        X moves along −D by the Cayley transform of :class:`CayleySGD`

    Args:
        params: parameters, or groups of them.
        lr: the learning rate: about the angle, in radians, of every direction that M has.
        momentum: β, for both kinds of group.
        nesterov: takes the direction of βM + G instead of M; in Euclidean groups as in torch.optim.SGD.
        dampening, weight_decay: as in torch.optim.SGD; Euclidean groups only.
        rounds: of the polynomial that makes K.
        exact_root: K by an eigendecomposition instead.
        scale: "none", or "rms", which multiplies the rate by 0.2√n for a p×n matrix, p ≤ n.
        manifold, batched, orthonormalize_on_start, iterations, exact, precision, capturable, shard_dim: as
            in :class:`CayleySGD`.
    """

    _euclidean_only: ClassVar[Group] = {"weight_decay": 0.0, "dampening": 0.0}
    _takes_parts: ClassVar[bool] = True

    def __init__(
        self,
        params: Params,
        lr: float = 0.01,
        momentum: float = 0.9,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        rounds: int = 2,
        exact_root: bool = False,
        scale: str = "none",
        manifold: str = "stiefel",
        batched: bool = False,
        orthonormalize_on_start: bool = True,
        iterations: int = 2,
        exact: bool = False,
        precision: str = "full",
        capturable: bool = False,
        shard_dim: Optional[int] = None,
    ) -> None:
        super().__init__(
            params,
            dict(
                lr=lr,
                momentum=momentum,
                dampening=dampening,
                weight_decay=weight_decay,
                nesterov=nesterov,
                rounds=rounds,
                exact_root=exact_root,
                scale=scale,
                manifold=manifold,
                batched=batched,
                orthonormalize_on_start=orthonormalize_on_start,
                iterations=iterations,
                exact=exact,
                precision=precision,
                capturable=capturable,
                shard_dim=shard_dim,
            ),
        )

    def _what_waits_for_host(self, group: Group) -> str:
        return waits_in_cayley_step(group)

    def _step_manifold(self, group: Group, batch: Batch, rate: Tensor, counters: Counters) -> None:
        names = (
            "momentum",
            "nesterov",
            "rounds",
            "exact_root",
            "scale",
            "iterations",
            "exact",
            "precision",
            "batched",
        )
        torch.ops.stiefel.cayley_muon_(
            batch.points,
            batch.all("momentum_buffer"),
            batch.gradients,
            counters.skipped,
            rate,
            off_manifold=counters.off_manifold,
            **batch.sharding,
            **{name: group[name] for name in names},
        )
