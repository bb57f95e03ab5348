"""Optimizers: groups on the Stiefel manifold and Euclidean ones side by side."""
from .cayley_adam import CayleyAdam
from .cayley_muon import CayleyMuon
from .cayley_sgd import CayleySGD
from .manifold_optimizer import ManifoldOptimizer
from .retraction_sgd import RetractionSGD

__all__ = ["CayleyAdam", "CayleyMuon", "CayleySGD", "ManifoldOptimizer", "RetractionSGD"]
