"""Weights as points of the Stiefel manifold.

A weight of shape (c_out, …) is the matrix p×n with p = c_out and n the product of the other sizes. Its
smaller side is orthonormal: the rows where p ≤ n, the columns where p > n. With ``batched=True`` a weight
(…, p, n) is a stack of matrices. Real and complex types; ᴴ is the conjugate transpose.
"""
import torch
from torch import Tensor

from ._errors import in_python_words

__all__ = ["cayley_retraction", "defect", "orthonormalize_", "project_tangent"]


def check_whole(weight: Tensor) -> None:
    """Raises TypeError for a DTensor, of which the operators would read one rank's part."""
    if hasattr(weight, "device_mesh"):
        raise TypeError(
            f"stiefel: a weight of shape {tuple(weight.shape)} is a DTensor; give its full_tensor(), or call"
            " this before the weight is divided"
        )


@torch.no_grad()
def defect(weight: Tensor, batched: bool = False) -> Tensor:
    """‖XᴴX − I‖_F of each matrix, computed in double: how far it is off the manifold.

    Returns a 0-dim tensor, or with ``batched`` a tensor of the leading sizes.
    """
    check_whole(weight)
    return torch.ops.stiefel.defect(weight, batched)


@in_python_words
@torch.no_grad()
def orthonormalize_(weight: Tensor, batched: bool = False) -> Tensor:
    """Replaces each matrix by the nearest orthonormal one, UVᴴ of X = UΣVᴴ, and returns the weight.

    Raises RuntimeError where a matrix is rank-deficient or not finite: then there is no nearest one.
    """
    check_whole(weight)
    torch.ops.stiefel.orthonormalize_(weight, batched)
    return weight


@torch.no_grad()
def project_tangent(weight: Tensor, vector: Tensor, batched: bool = False) -> Tensor:
    """The part of ``vector`` that is tangent to the manifold at ``weight``: Z − X·½(XᴴZ + ZᴴX)."""
    return torch.ops.stiefel.project_tangent(weight, vector, batched)


@torch.no_grad()
def cayley_retraction(
    point: Tensor,
    direction: Tensor,
    *,
    q: float = 0.5,
    eps: float = 1e-8,
    iterations: int = 2,
    exact: bool = False,
    norm: str = "frobenius",
    polish: bool = True,
    batched: bool = False,
) -> Tensor:
    """The point reached from ``point`` along the tangent vector ``direction`` in unit time,

        Y = (I − ½W)⁻¹(I + ½W)X,   W = Ŵ − Ŵᴴ,  Ŵ = MXᴴ − ½X(XᴴMXᴴ),

    by ``iterations`` rounds of the fixed-point iteration, or with ``exact`` in closed form. The iteration
    shortens the step where ‖W‖ is above 2q, so that it converges.
    """
    return torch.ops.stiefel.cayley_retraction(
        point, direction, q, eps, iterations, exact, norm, polish, batched
    )
