"""How ranks that hold the same weights share the steps of them: each weight is stepped by one rank, its
owner, and one message hands what the owners have computed to all."""
import io
from typing import Any, Dict, List, NamedTuple

import torch
from torch import Tensor

from .._ranks import Ranks

# Every tensor of a message begins where any type may.
_ALIGNMENT = 16


class Weight(NamedTuple):
    """A weight that the ranks share."""

    parameter: Tensor
    local: Tensor  # the same memory as a plain tensor
    batched: bool


def _bytes_of(tensor: Tensor) -> int:
    """Padded."""
    return -(-tensor.numel() * tensor.element_size() // _ALIGNMENT) * _ALIGNMENT


def _part_of(message: Tensor, offset: int, like: Tensor) -> Tensor:
    """The part of a message that is a tensor of ``like``'s shape and type."""
    length = like.numel() * like.element_size()
    return message.narrow(0, offset, length).view(like.dtype).view(like.shape)


def _checksum(weight: Tensor) -> Tensor:
    """A number that weights with the same bits have in common and others hardly do: their bits as whole
    numbers, each times a number of its place, in a sum that has the same bits in whatever order it is
    taken."""
    bits = weight.detach().resolve_conj().resolve_neg().contiguous()
    if bits.is_complex():
        bits = torch.view_as_real(bits)
    bits = bits.view(-1).view(torch.int16 if bits.element_size() == 2 else torch.int32).long()
    places = torch.arange(bits.numel(), device=bits.device).remainder_(1021).add_(1)
    return bits.mul_(places).sum()


class SharedSteps:
    """Who steps which weight, and the messages."""

    def __init__(self, ranks: Ranks) -> None:
        self.ranks = ranks
        self._owners: Dict[Tensor, int] = {}
        self._loads: List[int] = []

    def assign(self, weights: List[Weight]) -> None:
        """Gives an owner to each weight that has none yet, by cost. Alike on ranks where the lists are."""
        without = [weight for weight in weights if weight.parameter not in self._owners]
        if not without:
            return
        costs = [torch.ops.stiefel.step_cost(list(w.local.shape), w.batched) for w in without]
        owners = torch.ops.stiefel.owners(costs, self.ranks.size, self._loads)
        self._loads = self._loads or [0] * self.ranks.size
        for weight, cost, owner in zip(without, costs, owners):
            self._owners[weight.parameter] = owner
            self._loads[owner] += cost

    def owner(self, parameter: Tensor) -> int:
        return self._owners[parameter]

    def is_mine(self, parameter: Tensor) -> bool:
        return self._owners[parameter] == self.ranks.rank

    def check_equal(self, weights: List[Weight], device: torch.device) -> None:
        """Raises ValueError on every rank where the weights of a rank are not those of rank 0."""
        counts = self.ranks.gather(torch.tensor([len(weights)], device=device)).flatten().tolist()
        for rank, count in enumerate(counts):
            if count != counts[0]:
                raise ValueError(
                    f"stiefel: rank {rank} has {count} parameters on the manifold and rank 0 has {counts[0]};"
                    " make the same optimizer on all ranks"
                )
        if not weights:
            return
        sums = torch.stack([_checksum(weight.local).to(device) for weight in weights])
        shapes = torch.tensor([hash(tuple(weight.local.shape)) for weight in weights], device=device)
        everywhere = self.ranks.gather(torch.stack([sums, shapes], 1)).tolist()
        for rank, numbers in enumerate(everywhere):
            for weight, here, there in zip(weights, numbers, everywhere[0]):
                if here != there:
                    raise ValueError(
                        f"stiefel: a weight on the manifold, of shape {tuple(weight.local.shape)}, is not the"
                        f" same on rank {rank} as on rank 0; begin with the same weights on all ranks, by the"
                        " same seed or by a broadcast, before distribute()"
                    )

    def exchange(self, weights: List[Weight], counts: Tensor) -> Tensor:
        """Makes weights, all on one device, what their owners have. ``counts``, int64 and on that device, are
        this rank's; returns those of all ranks, (size, counts)."""
        size, me = self.ranks.size, self.ranks.rank
        if size == 1:
            return counts.unsqueeze(0)
        # A rank's part of the message: its counts, then its weights.
        lengths, offsets = [_bytes_of(counts)] * size, []
        for weight in weights:
            owner = self._owners[weight.parameter]
            offsets.append(lengths[owner])
            lengths[owner] += _bytes_of(weight.local)
        # Gathered parts are as long as the longest. Where that is far longer than most, as with more ranks
        # than weights, a sum with zeros in the others' places sends less: twice everything, however it is
        # divided.
        longest, total = max(lengths), sum(lengths)
        gathers = longest * size <= 2 * total
        begins = [0] * size  # of the parts, in the message of all
        for rank in range(1, size):
            begins[rank] = begins[rank - 1] + (longest if gathers else lengths[rank - 1])
        in_bytes: Dict[str, Any] = {"dtype": torch.uint8, "device": counts.device}
        if gathers:
            mine = torch.empty(longest, **in_bytes)
        else:
            everything = torch.zeros(total, **in_bytes)
            mine = everything.narrow(0, begins[me], lengths[me])
        _part_of(mine, 0, counts).copy_(counts)
        for weight, offset in zip(weights, offsets):
            if self.is_mine(weight.parameter):
                _part_of(mine, offset, weight.local).copy_(weight.local)
        if gathers:
            everything = self.ranks.gather(mine).view(-1)
        else:
            self.ranks.sum_(everything)
        for weight, offset in zip(weights, offsets):
            if not self.is_mine(weight.parameter):
                begin = begins[self._owners[weight.parameter]]
                weight.local.copy_(_part_of(everything, begin + offset, weight.local))
        return torch.stack([_part_of(everything, begin, counts) for begin in begins])

    def broadcast(self, value: Any, sender: int, device: torch.device) -> Any:
        """A value that torch.save can write, from one rank to all."""
        payload = bytearray()
        if sender == self.ranks.rank:
            file = io.BytesIO()
            torch.save(value, file)
            payload = bytearray(file.getvalue())
        # A sum in which all but one rank have zeros.
        length = torch.tensor([len(payload)], device=device)
        self.ranks.sum_(length)
        message = torch.zeros(int(length), dtype=torch.uint8, device=device)
        if payload:
            message.copy_(torch.frombuffer(payload, dtype=torch.uint8))
        self.ranks.sum_(message)
        received = bytearray(int(length))
        torch.frombuffer(received, dtype=torch.uint8).copy_(message)
        return torch.load(io.BytesIO(received), map_location=device, weights_only=False)
