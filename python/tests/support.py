"""What several tests use."""
import torch

import stiefel


def point(*shape, dtype=torch.float64, batched=False, seed=0):
    """A parameter on the manifold."""
    generator = torch.Generator().manual_seed(seed)
    weight = stiefel.init.haar_(torch.empty(*shape, dtype=dtype), batched=batched, generator=generator)
    return torch.nn.Parameter(weight)


def give_gradient(parameters, seed, scale=0.3):
    """Random gradients that depend on the seed alone."""
    generator = torch.Generator().manual_seed(1000 + seed)  # not the numbers of a start
    for parameter in parameters:
        wide = {torch.complex64: torch.complex128, torch.complex128: torch.complex128}.get(
            parameter.dtype, torch.float64
        )
        gradient = torch.randn(parameter.shape, generator=generator, dtype=wide) * scale
        parameter.grad = gradient.to(parameter.dtype)


def optimizers():
    """A name and a constructor (groups, **options) for each optimizer, with momentum."""
    return {
        "CayleySGD": lambda groups, **o: stiefel.CayleySGD(groups, **{"lr": 0.1, "momentum": 0.9, **o}),
        "CayleyAdam": lambda groups, **o: stiefel.CayleyAdam(groups, **{"lr": 0.1, **o}),
        "CayleyMuon": lambda groups, **o: stiefel.CayleyMuon(groups, **{"lr": 0.1, **o}),
        "RetractionSGD": lambda groups, **o: stiefel.RetractionSGD(
            groups, **{"lr": 0.1, "momentum": 0.9, **o}
        ),
        "SGDG": lambda groups, **o: stiefel.compat.SGDG(
            groups, **{"lr": 0.1, "momentum": 0.9, "stiefel": True, **o}
        ),
    }


def torch_release():
    """(2, 6) of torch 2.6.0+debian."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2])
