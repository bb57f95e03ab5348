"""Training with orthonormal weights: optimizers on the Stiefel manifold {X : XᴴX = I} for PyTorch.

    import torch, stiefel

    net = torch.nn.Sequential(torch.nn.Linear(784, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    split = stiefel.split_parameters(net)          # the first layer's weight goes on the manifold
    for weight in split.manifold:
        stiefel.init.haar_(weight)
    optimizer = stiefel.CayleySGD([
        {"params": split.manifold},
        {"params": split.euclidean, "manifold": "euclidean", "lr": 0.01},
    ], lr=0.2, momentum=0.9)

The arithmetic is in libstiefel.so, as operators in torch.ops.stiefel that C++ programs call too.
"""
from ._library import load as _load

_build = _load()
__version__: str = _build["version"]

from . import compat, init, nn, penalties  # noqa: E402
from .manifold import cayley_retraction, defect, orthonormalize_, project_tangent  # noqa: E402
from .optim import CayleyAdam, CayleyMuon, CayleySGD, ManifoldOptimizer, RetractionSGD  # noqa: E402
from .parameters import ParameterInfo, ParameterSplit, split_parameters  # noqa: E402

__all__ = [
    "CayleyAdam",
    "CayleyMuon",
    "CayleySGD",
    "ManifoldOptimizer",
    "ParameterInfo",
    "ParameterSplit",
    "RetractionSGD",
    "cayley_retraction",
    "compat",
    "defect",
    "init",
    "nn",
    "orthonormalize_",
    "penalties",
    "project_tangent",
    "split_parameters",
]
