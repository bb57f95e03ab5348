"""Initializers that put a weight on the Stiefel manifold, in place, as those of torch.nn.init.

Each reads the weight as :mod:`stiefel.manifold` says and returns it.
"""
from typing import Optional

import torch
from torch import Tensor

from .manifold import check_whole

__all__ = ["block_rotation_", "haar_", "hadamard_", "identity_"]


@torch.no_grad()
def haar_(weight: Tensor, batched: bool = False, generator: Optional[torch.Generator] = None) -> Tensor:
    """Uniformly distributed on the manifold: the Q factor of a Gaussian matrix, R's diagonal positive."""
    check_whole(weight)
    torch.ops.stiefel.haar_(weight, batched, generator)
    return weight


@torch.no_grad()
def identity_(weight: Tensor, batched: bool = False) -> Tensor:
    """Ones on the diagonal, zeros elsewhere."""
    check_whole(weight)
    torch.ops.stiefel.identity_(weight, batched)
    return weight


@torch.no_grad()
def hadamard_(weight: Tensor, batched: bool = False) -> Tensor:
    """A Hadamard matrix over √n, by Sylvester's construction. Square, of a size that is a power of two."""
    check_whole(weight)
    torch.ops.stiefel.hadamard_(weight, batched)
    return weight


@torch.no_grad()
def block_rotation_(
    weight: Tensor, batched: bool = False, generator: Optional[torch.Generator] = None
) -> Tensor:
    """2×2 rotations by random angles down the diagonal, and a one in the corner of an odd size. Square."""
    check_whole(weight)
    torch.ops.stiefel.block_rotation_(weight, batched, generator)
    return weight
