"""Cayley ADAM."""
import inspect
from typing import Any, ClassVar, Dict, Optional, Tuple, Union

import torch
from torch import Tensor
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from .manifold_optimizer import (
    Batch,
    Counters,
    Group,
    ManifoldOptimizer,
    Params,
    State,
    check_range,
    reads_rate_on_device,
)
from .sgd_family import cayley_options, waits_in_cayley_step

# Later versions of torch ask whether a parameter is complex; earlier ones look themselves.
_TAKE_HAS_COMPLEX = {step: "has_complex" in inspect.signature(step).parameters for step in (adam, adamw)}


class CayleyAdam(ManifoldOptimizer):
    r"""Cayley ADAM (Li, Fuxin, Todorovic, ICLR 2020, Algorithm 2, with k counted from 1 and v from 0) for
    groups on the Stiefel manifold, and torch.optim.Adam or AdamW for Euclidean ones.

    Per matrix X with gradient G, with one number v per matrix::

        M ← β₁M + (1 − β₁)G,   v ← β₂v + (1 − β₂)‖G‖²_F,   k ← k + 1
        r = (1 − β₁ᵏ)√(v/(1 − β₂ᵏ) + ε)
        X moves along −M/r, projected onto the tangent space, by the Cayley transform of :class:`CayleySGD`

    Args:
        params: parameters, or groups of them.
        lr: the learning rate.
        betas: β₁ and β₂.
        eps: ε, also Adam's in Euclidean groups.
        weight_decay: Euclidean groups only: in the gradient, as Adam has it, or apart from it with
            ``decoupled_weight_decay``, as AdamW has it.
        manifold, batched, orthonormalize_on_start, q, iterations, exact, norm, polish, precision, capturable,
            shard_dim: as in :class:`CayleySGD`.
    """

    _euclidean_only: ClassVar[Group] = {"weight_decay": 0.0, "decoupled_weight_decay": False}
    _takes_parts: ClassVar[bool] = True

    def __init__(
        self,
        params: Params,
        lr: float,
        betas: Tuple[float, float] = (0.9, 0.99),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        decoupled_weight_decay: bool = False,
        manifold: str = "stiefel",
        batched: bool = False,
        orthonormalize_on_start: bool = True,
        q: float = 0.5,
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
                betas=betas,
                eps=eps,
                weight_decay=weight_decay,
                decoupled_weight_decay=decoupled_weight_decay,
                manifold=manifold,
                batched=batched,
                orthonormalize_on_start=orthonormalize_on_start,
                q=q,
                iterations=iterations,
                exact=exact,
                norm=norm,
                polish=polish,
                precision=precision,
                capturable=capturable,
                shard_dim=shard_dim,
            ),
        )

    def _check_options(self, group: Group) -> None:
        for which, beta in zip(("first", "second"), group["betas"]):
            check_range(f"the {which} of betas", beta, 0, 1)

    def _what_waits_for_host(self, group: Group) -> str:
        return waits_in_cayley_step(group)

    def _init_manifold_state(self, group: Group, state: State, point: Tensor) -> None:
        if "exp_avg" not in state:
            shape = point.shape[:-2] if group["batched"] else ()
            state["exp_avg"] = torch.zeros_like(point)
            for name in ("second_moment", "step"):
                state[name] = torch.zeros(shape, dtype=torch.float64, device=point.device)

    def _step_manifold(self, group: Group, batch: Batch, rate: Tensor, counters: Counters) -> None:
        beta1, beta2 = group["betas"]
        torch.ops.stiefel.cayley_adam_(
            batch.points,
            batch.all("exp_avg"),
            batch.all("second_moment"),
            batch.all("step"),
            batch.gradients,
            counters.skipped,
            rate,
            beta1,
            beta2,
            off_manifold=counters.off_manifold,
            **batch.sharding,
            **cayley_options(group),
        )

    def _step_euclidean(self, group: Group, batch: Batch, lr: Union[float, Tensor]) -> None:
        on_device = reads_rate_on_device(group, lr)
        for point, state in zip(batch.points, batch.states):
            if "exp_avg" not in state:
                state["exp_avg"] = torch.zeros_like(point)
                state["exp_avg_sq"] = torch.zeros_like(point)
                state["step"] = torch.zeros(
                    (), dtype=torch.float32, device=point.device if on_device else "cpu"
                )
        step = adamw if group["decoupled_weight_decay"] else adam
        kind: Dict[str, Any] = {"capturable": on_device}
        if _TAKE_HAS_COMPLEX[step]:
            kind["has_complex"] = any(point.is_complex() for point in batch.points)
        beta1, beta2 = group["betas"]
        step(
            batch.points,
            batch.gradients,
            batch.all("exp_avg"),
            batch.all("exp_avg_sq"),
            [],
            batch.all("step"),
            amsgrad=False,
            beta1=beta1,
            beta2=beta2,
            lr=lr,
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
            **kind,
        )
