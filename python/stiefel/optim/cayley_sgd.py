"""Cayley SGD."""
from typing import ClassVar, Optional

import torch
from torch import Tensor

from .manifold_optimizer import Batch, Counters, Group, Params
from .sgd_family import SGDFamily, cayley_options, waits_in_cayley_step


class CayleySGD(SGDFamily):
    r"""Cayley SGD with momentum (Li, Fuxin, Todorovic, ICLR 2020, Algorithm 1) for groups on the Stiefel
    manifold, and torch.optim.SGD for Euclidean ones.

    Per matrix X with gradient G, with W the skew matrix of the paper, which is never built::

        M ← βM + G, projected onto the tangent space at X
        α = min(l, 2q/(‖W‖ + ε))
        X ← (I + (α/2)W)⁻¹(I − (α/2)W)X,   by s rounds of a fixed-point iteration

    X stays orthonormal to rounding: its drift and the truncation error of the iteration are removed in every
    step.

    Args:
        params: parameters, or groups of them.
        lr: the learning rate l.
        momentum: β, for both kinds of group.
        dampening, nesterov, weight_decay: as in torch.optim.SGD; Euclidean groups only.
        manifold: "stiefel" or "euclidean".
        batched: reads a parameter (…, p, n) as a stack of matrices instead of one matrix (c_out, rest).
        orthonormalize_on_start: replaces a parameter that is off the manifold by more than 1e-3 by the
            nearest orthonormal matrix, with a warning.
        q: the contraction factor, α‖W‖ ≤ 2q.
        eps: ε.
        iterations: s.
        exact: the closed form by one p×p solve; then α = l.
        norm: of W: "frobenius", "spectral" or "one".
        polish: False is the paper's iteration to the letter, which drifts off the manifold.
        precision: "mixed" computes products of float32 matrices in half precision on a GPU.
        capturable: Euclidean groups read their rate from the GPU, so that a step can be captured into a CUDA
            graph.
        shard_dim: of weights of which every process has a part, the side that is divided: see
            :meth:`distribute`. DTensors need none.

    Example::

        optimizer = stiefel.CayleySGD(weights, lr=0.2, momentum=0.9)
    """

    _takes_parts: ClassVar[bool] = True

    def __init__(
        self,
        params: Params,
        lr: float,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        manifold: str = "stiefel",
        batched: bool = False,
        orthonormalize_on_start: bool = True,
        q: float = 0.5,
        eps: float = 1e-8,
        iterations: int = 2,
        exact: bool = False,
        norm: str = "frobenius",
        polish: bool = True,
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
                manifold=manifold,
                batched=batched,
                orthonormalize_on_start=orthonormalize_on_start,
                q=q,
                eps=eps,
                iterations=iterations,
                exact=exact,
                norm=norm,
                polish=polish,
                precision=precision,
                capturable=capturable,
                shard_dim=shard_dim,
            ),
        )

    def _what_waits_for_host(self, group: Group) -> str:
        return waits_in_cayley_step(group)

    def _step_manifold(self, group: Group, batch: Batch, rate: Tensor, counters: Counters) -> None:
        torch.ops.stiefel.cayley_sgd_(
            batch.points,
            batch.all("momentum_buffer"),
            batch.gradients,
            counters.skipped,
            rate,
            group["momentum"],
            off_manifold=counters.off_manifold,
            **batch.sharding,
            **cayley_options(group),
        )
