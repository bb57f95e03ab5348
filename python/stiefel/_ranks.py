"""The processes of a torch.distributed process group, as the library's operators see them."""
import weakref
from typing import Any, Dict, List

import torch
import torch.distributed as dist
from torch import Tensor

# Process groups by the names under which the library knows their ranks.
_groups: Dict[str, Any] = {}
_kernels: List[torch.library.Library] = []  # what is implemented stays while its Library lives


def _sum_over_ranks_(tensor: Tensor, ranks: str) -> None:
    dist.all_reduce(tensor, group=_groups[ranks])


def _gather_over_ranks(tensor: Tensor, ranks: str) -> Tensor:
    group = _groups[ranks]
    everything = tensor.new_empty((dist.get_world_size(group), *tensor.shape))
    dist.all_gather(list(everything.unbind(0)), tensor, group=group)
    return everything


def _implement_operators() -> None:
    """Gives the library the two operators by which it sums and gathers."""
    if _kernels:
        return
    library = torch.library.Library("stiefel", "IMPL")
    for device in ("CPU", "CUDA"):
        library.impl("sum_over_ranks_", _sum_over_ranks_, device)
        library.impl("gather_over_ranks", _gather_over_ranks, device)
    _kernels.append(library)


def _close(name: str) -> None:
    torch.ops.stiefel.close_ranks(name)
    del _groups[name]


class Ranks:
    """Ranks 0 … size − 1 of a process group, the default one where none is given.

    Every function is called by all ranks, in the same order and with tensors of the same shape and type.
    """

    def __init__(self, process_group: Any = None) -> None:
        if not dist.is_available():
            raise RuntimeError(
                f"stiefel: torch {torch.__version__} is built without torch.distributed, which several"
                " processes need"
            )
        if process_group is None and not dist.is_initialized():
            raise RuntimeError(
                "stiefel: there is no process group; call torch.distributed.init_process_group on every rank"
                " first"
            )
        self.rank: int = dist.get_rank(process_group)
        if self.rank < 0:
            raise RuntimeError(
                "stiefel: this process is not in the process group; only its members may share its steps"
            )
        self.size: int = dist.get_world_size(process_group)
        _implement_operators()
        #: by which operators find them
        self.name: str = torch.ops.stiefel.open_ranks(self.rank, self.size)
        _groups[self.name] = process_group
        weakref.finalize(self, _close, self.name).atexit = False

    def sum_(self, tensor: Tensor) -> None:
        """Replaces a contiguous tensor by its sum over all ranks, which has the same bits on every rank."""
        torch.ops.stiefel.sum_over_ranks_(tensor, self.name)

    def gather(self, tensor: Tensor) -> Tensor:
        """The tensors of all ranks, in the order of the ranks: (size, …) of a contiguous tensor."""
        return torch.ops.stiefel.gather_over_ranks(tensor, self.name)
