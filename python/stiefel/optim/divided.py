"""Weights that are divided among ranks along their long side: where a rank's part lies in the whole.

A p×n matrix of which every rank has some of the n columns is stepped where it lies: the ranks add up p×p
matrices, compute the same coefficients, and each moves its own columns.
"""
from typing import Any, Dict, List, Optional

import torch
from torch import Tensor

from .._ranks import Ranks


def is_dtensor(tensor: Any) -> bool:
    return hasattr(tensor, "device_mesh")


def local_part(tensor: Tensor) -> Tensor:
    """The memory of a DTensor on this rank; another tensor itself."""
    return tensor.to_local() if is_dtensor(tensor) else tensor  # type: ignore[operator]


def _as_sent(tensor: Any) -> Any:
    """A DTensor in a type that can be sent: half and bfloat16 as float32 by Gloo, which knows neither."""
    reduced = tensor.dtype in (torch.float16, torch.bfloat16)
    return tensor.float() if reduced and tensor.device_mesh.device_type == "cpu" else tensor


def whole_of(tensor: Any) -> Any:
    """All of a DTensor, called by all ranks; anything else itself."""
    return _as_sent(tensor).full_tensor().to(tensor.dtype) if is_dtensor(tensor) else tensor


def moved_to(tensor: Any, placements: Any) -> Any:
    """A DTensor in other placements; called by all ranks."""
    if tuple(tensor.placements) == tuple(placements):
        return tensor
    return _as_sent(tensor).redistribute(tensor.device_mesh, placements).to(tensor.dtype)


def matrix_sides(shape: torch.Size, batched: bool) -> List[int]:
    """The sides p and n of the matrices of a weight."""
    if batched:
        return list(shape[-2:])
    return [shape[0], shape[1:].numel()]


class Division:
    """A weight of which this rank has a part. Made by all ranks, for the same weights in the same order.

    Args:
        part: this rank's part.
        axis: the divided dimension of the tensor.
        dim: the divided dimension of the matrices: 0 where their columns are orthonormal, 1 where their rows
            are.
        batched: as in a parameter group.
        ranks: those who have the parts.
    """

    def __init__(self, part: Tensor, axis: int, dim: int, batched: bool, ranks: Ranks) -> None:
        self.ranks, self.axis, self.dim = ranks, axis, dim
        everywhere = ranks.gather(torch.tensor(part.shape, device=part.device)).tolist()
        for rank, shape in enumerate(everywhere):
            for d, (mine, other) in enumerate(zip(part.shape, shape)):
                if d != axis and mine != other:
                    raise ValueError(
                        f"stiefel: this rank's part of a weight has the shape {tuple(part.shape)}, that of"
                        f" rank {rank} has {other} in dimension {d}; only dimension {axis} is divided"
                    )
        self.lengths: List[int] = [shape[axis] for shape in everywhere]
        self.whole_shape = torch.Size(
            sum(self.lengths) if d == axis else size for d, size in enumerate(part.shape)
        )
        #: of the divided side of the matrices, over all ranks
        self.length = matrix_sides(self.whole_shape, batched)[dim]

    def has_empty_part(self) -> bool:
        return 0 in self.lengths

    def part_of(self, whole: Tensor) -> Tensor:
        """This rank's part of a whole tensor."""
        first = sum(self.lengths[: self.ranks.rank])
        return whole.narrow(self.axis, first, self.lengths[self.ranks.rank])

    def gather(self, part: Tensor) -> Tensor:
        """The whole of which every rank has a part; called by all ranks."""
        shape = list(part.shape)
        shape[self.axis] = max(self.lengths)  # messages are equally long
        padded = part.new_zeros(shape)
        padded.narrow(self.axis, 0, part.shape[self.axis]).copy_(part)
        everywhere = self.ranks.gather(padded)
        parts = [of.narrow(self.axis, 0, length) for of, length in zip(everywhere, self.lengths)]
        return torch.cat(parts, self.axis)


def axis_of(shard_dim: int, weight: Tensor, batched: bool) -> int:
    """The dimension of a tensor that is divided where its matrices are divided along ``shard_dim``."""
    return weight.dim() - 2 + shard_dim if batched else shard_dim


def have_gradients(parameters: List[Tensor], divisions: List[Division]) -> List[bool]:
    """Which divided weights have a gradient in this step: where a rank has an empty part, through which no
    gradient flows, the other ranks say so. Called by all ranks; only such weights make them wait. Raises
    RuntimeError on every rank where some have a gradient of a weight and others, whose parts are not empty,
    have none."""
    have = [parameter.grad is not None for parameter in parameters]
    asked: Dict[str, List[int]] = {}  # of each ranks, which parameters
    for i, division in enumerate(divisions):
        if division.has_empty_part():
            asked.setdefault(division.ranks.name, []).append(i)
    for entries in asked.values():
        device = local_part(parameters[entries[0]]).device
        mine = torch.tensor([int(have[i]) for i in entries], device=device)
        everywhere = divisions[entries[0]].ranks.gather(mine).tolist()
        for column, i in enumerate(entries):
            having: Dict[bool, int] = {}
            for rank, length in enumerate(divisions[i].lengths):
                if length > 0:
                    having[everywhere[rank][column] > 0] = rank
            if len(having) == 2:
                raise RuntimeError(
                    f"stiefel: rank {having[True]} has a gradient of its part of a weight and rank"
                    f" {having[False]} has none; a weight that is divided has a gradient on all ranks, or on"
                    " none"
                )
            have[i] = True in having
    return have


class DTensorPlace:
    """How a DTensor on the manifold is stepped: where it lies, or in another placement.

    Args:
        parameter: the DTensor.
        batched: as in a parameter group.
    """

    def __init__(self, parameter: Any, batched: bool) -> None:
        try:
            from torch.distributed.tensor import Shard
        except ImportError:
            raise TypeError(
                f"stiefel: a parameter of shape {tuple(parameter.shape)} is a DTensor, which can be on the"
                f" manifold from torch 2.6 on; this is {torch.__version__}. Keep it whole, on every rank"
            ) from None
        self.mesh = parameter.device_mesh
        self.home = tuple(parameter.placements)
        self.placements = self.home  # in which it is stepped
        self.mesh_dim: Optional[int] = None  # along which it is divided; none: every rank has it whole
        divided = [
            i
            for i, placement in enumerate(self.home)
            if not placement.is_replicate() and self.mesh.size(i) > 1
        ]
        if not divided:
            return
        if len(divided) > 1 or type(self.home[divided[0]]) is not Shard:
            raise TypeError(
                f"stiefel: a DTensor of shape {tuple(parameter.shape)} on the manifold has the placements"
                f" {self.home}; what can be stepped is Replicate(), and Shard(…) along one dimension of the"
                " mesh. Shard it so, or keep it whole: an orthonormal weight is one matrix"
            )
        self.mesh_dim = divided[0]
        axis = self.home[self.mesh_dim].dim % parameter.dim()
        rows, columns = matrix_sides(parameter.shape, batched)
        first = parameter.dim() - 2 if batched else 0
        #: the divided dimension of the matrices
        self.dim = 0 if rows > columns or (rows == columns and axis == first) else 1
        beside = range(first + 1, parameter.dim())  # the dimensions that are the matrices' columns
        along = [first] if self.dim == 0 else sorted(beside, key=lambda d: -parameter.shape[d])
        if axis not in along:
            # By columns where it has rows, say: the parts change places before and after the step.
            axis = along[0]
            placements = list(self.home)
            placements[self.mesh_dim] = Shard(axis)
            self.placements = tuple(placements)
        #: the divided dimension of the tensor
        self.axis = axis

    def group(self) -> Any:
        return self.mesh.get_group(self.mesh_dim)

    def bring(self, tensor: Any) -> Any:
        """A DTensor of the parameter's shape in the placement in which it is stepped."""
        if not is_dtensor(tensor):
            raise TypeError(
                f"stiefel: the gradient of a DTensor of shape {tuple(tensor.shape)} is none; give it a"
                " gradient with a mesh and placements"
            )
        return moved_to(tensor, self.placements)

    def write(self, point: Any, parameter: Any) -> None:
        """Makes a parameter what a point is that was stepped in its place."""
        if self.placements != self.home:
            point = moved_to(point.to(parameter.dtype), self.home)
        home = local_part(parameter.detach())
        if local_part(point) is not home:
            home.copy_(local_part(point))


def adopt_dtensor(value: Tensor, parameter: Any, place: Optional[DTensorPlace]) -> Tensor:
    """A loaded tensor, whole or a DTensor, in the placement of its parameter's state; called by all ranks."""
    from torch.distributed.tensor import distribute_tensor

    placements = tuple(parameter.placements) if place is None else place.placements
    if not is_dtensor(value):
        # A copy, since a replicated tensor would be the loaded state's own memory.
        value = value.detach().to(parameter.device, copy=True)
        return distribute_tensor(value, parameter.device_mesh, placements)
    return moved_to(value.detach(), placements).clone()
