"""Orthonormal weights as functions of an unconstrained tensor, for torch.nn.utils.parametrize.

    layer = torch.nn.Linear(64, 32)
    torch.nn.utils.parametrize.register_parametrization(layer, "weight", stiefel.nn.Orthonormal("cayley"))
"""
from typing import Optional

import torch
from torch import Tensor

from .manifold import defect, orthonormalize_

__all__ = ["Orthonormal"]

# A weight further off the manifold than this is no start of a parametrization.
_NEAR = 1e-3


class Orthonormal(torch.nn.Module):
    r"""A parametrization whose weight is orthonormal for any value of the parameter.

    The parameter is read as a tall n×p matrix A, transposed where c_out is the smaller side; S = L − Lᴴ with
    L the lower part of A padded to n×n, and B an orthonormal n×n matrix, kept as the buffer ``base``:

    ===============  ======================================================================================
    "matrix-exp"     Q = B exp(S)[:, :p]
    "cayley"         Q = B (I − ½S)⁻¹(I + ½S)[:, :p]
    "householder"    Q = (H₁…H_p)[:, :p] diag(b), reflections Hⱼ by the columns of A; b is the buffer ``base``
    "omdsm"          K = (V_cV_cᴴ)^(−½)V_c of the rows V_c = V − mean of each row, in groups of
                     ``group_size`` rows (0: as large as possible); no buffer; can be differentiated once
    ===============  ======================================================================================

    Registered on a weight, or assigned to (``layer.weight = w``), the parametrization starts at that weight,
    made orthonormal first where it is not. "omdsm" can only reach rows of mean zero, and starts with the
    weight as the parameter.
    """

    base: Optional[Tensor]

    def __init__(self, parametrization: str = "matrix-exp", group_size: int = 0) -> None:
        super().__init__()
        self.parametrization = parametrization
        self.group_size = group_size
        self.register_buffer("base", None)
        if group_size < 0:
            raise ValueError(
                f"stiefel: OMDSM's group_size must be 0 (as large as possible) or more; got {group_size}"
            )
        try:  # the operator knows the names
            torch.ops.stiefel.parametrized_start(torch.empty(1, 2, device="meta"), parametrization)
        except RuntimeError as error:
            raise ValueError(str(error)) from None

    def forward(self, proxy: Tensor) -> Tensor:
        return torch.ops.stiefel.orthonormal_weight(proxy, self.parametrization, self.base, self.group_size)

    @torch.no_grad()
    def right_inverse(self, weight: Tensor) -> Tensor:
        if self.parametrization != "omdsm" and not defect(weight).item() < _NEAR:
            weight = orthonormalize_(weight.detach().clone())
        proxy, base = torch.ops.stiefel.parametrized_start(weight, self.parametrization)
        self.base = base if base.numel() > 0 else None
        return proxy

    def extra_repr(self) -> str:
        groups = f", group_size={self.group_size}" if self.group_size else ""
        return f"{self.parametrization!r}{groups}"
