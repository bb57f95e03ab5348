"""Drop-in replacements for optimizers of other code."""
import warnings
from typing import Any, ClassVar, Optional

from torch import Tensor

from .optim.cayley_sgd import CayleySGD
from .optim.manifold_optimizer import Group, Params

__all__ = ["SGDG"]


class SGDG(CayleySGD):
    """The optimizer of the paper's released code, as tools that learn rotations carry it.

    Matrices of groups with ``stiefel=True`` that have no more rows than columns are stepped by Cayley SGD
    with five rounds and a step bounded by the matrix 1-norm of W; all other parameters by SGD. From an
    orthonormal start one step without momentum equals the released one up to the truncation error of its
    iteration.

    What changes:

    - ``momentum`` takes effect on the manifold: the released code computes the buffer and does not write it
      back.
    - Matrices stay orthonormal to rounding. The released code normalizes rows in every step and calls a QR
      decomposition at random, in one step of 101; there is no randomness here.
    - A parameter that is not orthonormal when the optimizer is made is replaced by the nearest orthonormal
      matrix, with a warning; half and bfloat16 parameters have a float32 master.
    - ``weight_decay`` takes effect on the SGD parameters, whichever group comes first. On orthonormal
      matrices ``weight_decay``, ``dampening`` and ``nesterov`` are ignored, as in the released code.
    - ``omega`` and ``grad_clip`` are accepted and ignored, with a warning: the released code does not read
      them either.
    - Gradients are read, never changed.
    """

    _euclidean_only: ClassVar[Group] = {}

    def __init__(
        self,
        params: Params,
        lr: Optional[float] = None,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        stiefel: bool = False,
        omega: float = 0,
        grad_clip: Optional[float] = None,
    ) -> None:
        listed: Any = params if isinstance(params, Tensor) else list(params)
        without = [entry for entry in listed if not (isinstance(entry, dict) and "lr" in entry)]
        if lr is None and without:
            raise ValueError("stiefel: SGDG needs lr, as an argument or in every parameter group")
        # Every option is among the defaults, where a copy of the optimizer finds them.
        super(CayleySGD, self).__init__(
            listed,
            dict(
                lr=0.0 if lr is None else lr,
                momentum=momentum,
                dampening=dampening,
                weight_decay=weight_decay,
                nesterov=nesterov,
                stiefel=stiefel,
                omega=omega,
                grad_clip=grad_clip,
                q=0.5,
                eps=1e-8,
                iterations=5,
                exact=False,
                norm="one",
                polish=True,
                precision="full",
            ),
        )

    def add_param_group(self, param_group: Group) -> None:
        options = {**self.defaults, **param_group}
        for name, neutral in (("omega", 0), ("grad_clip", None)):
            if options[name] != neutral:
                warnings.warn(
                    (
                        f"stiefel: {name} is {options[name]} and has no effect, as in the released code; add"
                        " a penalty (stiefel.penalties) or clip gradients (torch.nn.utils.clip_grad_norm_)"
                        " instead"
                    ),
                    stacklevel=4,
                )
        super().add_param_group(param_group)

    def _is_on_manifold(self, group: Group, parameter: Tensor) -> bool:
        return group["stiefel"] and parameter.dim() >= 2 and parameter.shape[0] ** 2 <= parameter.numel()
