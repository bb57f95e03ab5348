"""Which parameters of a module go on the manifold."""
import warnings
from dataclasses import dataclass, field
from typing import Callable, List, Optional, Set

from torch import Tensor, nn

__all__ = ["ParameterInfo", "ParameterSplit", "split_parameters"]


def _with_shape(name: str, tensor: Tensor) -> str:
    return f"{name} {tuple(tensor.shape)}"


@dataclass(repr=False)
class ParameterInfo:
    """One parameter of a module, and what split_parameters does with it by default."""

    name: str  #: as in module.named_parameters()
    tensor: Tensor
    on_manifold: bool  #: the default choice

    def __repr__(self) -> str:
        return f"ParameterInfo({_with_shape(self.name, self.tensor)}, on_manifold={self.on_manifold})"


@dataclass(repr=False)
class ParameterSplit:
    """The parameters of a module, split for an optimizer's groups."""

    manifold: List[Tensor] = field(default_factory=list)
    euclidean: List[Tensor] = field(default_factory=list)
    manifold_names: List[str] = field(default_factory=list)
    euclidean_names: List[str] = field(default_factory=list)

    def __repr__(self) -> str:
        lines = ["ParameterSplit("]
        for kind, names, tensors in (
            ("manifold", self.manifold_names, self.manifold),
            ("euclidean", self.euclidean_names, self.euclidean),
        ):
            lines += [f"  {kind}:", *(f"    {_with_shape(*each)}" for each in zip(names, tensors))]
        return "\n".join([*lines, ")"])


_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
# The linear layers among their children are followed by more of the network, so none of them is a classifier.
_INNER = (nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


def _is_wide(weight: Tensor) -> bool:
    return weight.shape[0] <= weight.numel() // weight.shape[0]


class _DefaultChoice:
    """The weights that go on the manifold by default."""

    def __init__(self, root: nn.Module) -> None:
        self.chosen: Set[int] = set()
        self._inner: Set[int] = set()  # linear layers that are no classifiers; parents come before children
        self._last_linear = 0  # the id of its weight
        for module in root.modules():
            self._look_at(module)
        self.classifier_was_chosen = self._last_linear in self.chosen
        self.chosen.discard(self._last_linear)

    def _look_at(self, module: nn.Module) -> None:
        if isinstance(module, _INNER):
            self._inner.update(id(child) for child in module.children() if isinstance(child, nn.Linear))
        if isinstance(module, nn.MultiheadAttention):
            for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
                self._choose(getattr(module, name))
        elif isinstance(module, (nn.RNNBase, nn.RNNCellBase)):
            for name, parameter in module.named_parameters(recurse=False):
                if name.startswith("weight_hh"):
                    self._choose(parameter)
        elif isinstance(module, nn.Linear):
            if _is_wide(module.weight):
                self._choose(module.weight)
            if id(module) not in self._inner:
                self._last_linear = id(module.weight)
        elif isinstance(module, _CONVOLUTIONS) and module.groups == 1 and _is_wide(module.weight):
            self._choose(module.weight)

    def _choose(self, weight: Optional[Tensor]) -> None:
        # A parametrized weight is computed, no parameter.
        if isinstance(weight, nn.Parameter) and weight.numel() > 0 and weight.requires_grad:
            self.chosen.add(id(weight))


def split_parameters(
    module: nn.Module, predicate: Optional[Callable[[ParameterInfo], bool]] = None
) -> ParameterSplit:
    """Splits the parameters of a module into those on the manifold and the others.

    On the manifold by default:

    - the weights of convolutions and linear layers with at least as many inputs as outputs, except the last
      linear layer, whose scale a classifier needs;
    - in attention, the projections of queries, keys and values, and of the output. Where the first three are
      one weight (3E, E), it is one matrix with orthonormal columns;
    - in recurrent layers and cells, the weights from hidden to hidden.

    Grouped and transposed convolutions, recurrent weights from the input, biases, normalization, embeddings,
    and what needs no gradient stay Euclidean. ``predicate``, where given, decides instead: it is called with
    a ParameterInfo.
    """
    uninitialized = [
        name for name, p in module.named_parameters() if isinstance(p, nn.UninitializedParameter)
    ]
    if uninitialized:
        raise ValueError(
            f"stiefel: the parameter {uninitialized[0]} of a lazy module has no shape yet; run the module "
            "once before split_parameters"
        )
    choice = _DefaultChoice(module)
    split = ParameterSplit()
    for name, parameter in module.named_parameters():
        info = ParameterInfo(name, parameter, id(parameter) in choice.chosen)
        on_manifold = predicate(info) if predicate is not None else info.on_manifold
        (split.manifold if on_manifold else split.euclidean).append(parameter)
        (split.manifold_names if on_manifold else split.euclidean_names).append(name)
    if not choice.chosen and predicate is None and split.euclidean:
        why = (
            "its last linear layer is taken for a classifier and stays Euclidean, and there is no other"
            if choice.classifier_was_chosen
            else (
                "it has no convolution or linear layer with at least as many inputs as outputs, no attention"
                " and no recurrent layer that needs a gradient"
            )
        )
        warnings.warn(
            (
                f"stiefel: no parameter of {type(module).__name__} goes on the manifold: {why}; give "
                "split_parameters a predicate to choose, for example lambda info: info.tensor.dim() == 2"
            ),
            stacklevel=2,
        )
    return split
