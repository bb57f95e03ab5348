"""What the optimizers that follow SGD share: a momentum buffer, and torch.optim.SGD for Euclidean groups."""
import inspect
import math
from typing import Any, ClassVar, Dict, Union

import torch
from torch import Tensor
from torch.optim.sgd import sgd

from .manifold_optimizer import Batch, Group, ManifoldOptimizer, State, check_range, reads_rate_on_device

_HAS_FUSED_SGD = "fused" in inspect.signature(sgd).parameters  # torch 2.3 and later


class SGDFamily(ManifoldOptimizer):
    """``momentum_buffer`` is M on the manifold and SGD's buffer elsewhere."""

    _euclidean_only: ClassVar[Group] = {"weight_decay": 0.0, "dampening": 0.0, "nesterov": False}

    def _check_options(self, group: Group) -> None:
        check_range("momentum", group["momentum"], 0, 1)
        if not abs(group["dampening"]) < math.inf:
            raise ValueError(f"stiefel: dampening must be finite; got {group['dampening']}")
        if group["nesterov"] and (group["momentum"] <= 0 or group["dampening"] != 0):
            raise ValueError(
                "stiefel: nesterov needs a momentum above 0 and no dampening; got momentum "
                f"{group['momentum']} and dampening {group['dampening']}"
            )

    def _init_manifold_state(self, group: Group, state: State, point: Tensor) -> None:
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(point)

    def _step_euclidean(self, group: Group, batch: Batch, lr: Union[float, Tensor]) -> None:
        buffers = [state.get("momentum_buffer") for state in batch.states]
        kind: Dict[str, Any] = {}
        if reads_rate_on_device(group, lr):
            if not _HAS_FUSED_SGD:
                raise RuntimeError(
                    "stiefel: SGD of a Euclidean group that can be captured into a CUDA graph needs torch "
                    f"2.3 or later; this is {torch.__version__}"
                )
            kind["fused"] = True
        sgd(
            batch.points,
            batch.gradients,
            buffers,
            has_sparse_grad=False,
            lr=lr,
            momentum=group["momentum"],
            dampening=group["dampening"],
            nesterov=group["nesterov"],
            weight_decay=group["weight_decay"],
            maximize=False,
            **kind,
        )
        if group["momentum"] != 0:
            for state, buffer in zip(batch.states, buffers):
                state["momentum_buffer"] = buffer


def cayley_options(group: Group) -> Dict[str, Any]:
    """How the Cayley transform is computed: the arguments that the operators of Cayley SGD and ADAM share."""
    names = ("q", "eps", "iterations", "exact", "norm", "polish", "precision", "batched")
    return {name: group[name] for name in names}


def waits_in_cayley_step(group: Group) -> str:
    """What of a Cayley step waits for the host: its decompositions."""
    for option, what in (("exact", "linear solve"), ("exact_root", "eigendecomposition")):
        if group.get(option):
            return (
                f"the {what} of {option}=True waits for the host and cannot be captured into a CUDA graph;"
                f" the step of {option}=False can"
            )
    return ""
