"""SGD by a retraction."""
import torch
from torch import Tensor

from .manifold_optimizer import Batch, Counters, Group, Params, State
from .sgd_family import SGDFamily


# Those that have been captured into a CUDA graph (docs/comparison.md): products, and decompositions that run
# on the device alone. An SVD and a solve by LU wait for the host.
_CAPTURABLE = ("polar-ns", "qr", "cholesky-qr")


class RetractionSGD(SGDFamily):
    r"""Gradient descent on the Stiefel manifold by a retraction, X ← R_X(−lξ), and torch.optim.SGD for
    Euclidean groups.

    Without momentum ξ is the tangent part of the gradient. With momentum M ← βM + G is projected onto the
    tangent space at X and kept, and ξ = M.

    ==================  =================================================================================
    ``retraction``      R_X(ξ)
    ==================  =================================================================================
    "polar"             the polar factor UVᴴ of X + ξ, by a singular value decomposition
    "polar-ns"          the same by at most ``rounds`` rounds of Newton–Schulz
    "qr"                the Q factor of X + ξ with a positive diagonal of R, by Householder reflections
    "cholesky-qr"       the same by a Cholesky decomposition
    "wen-yin"           the Cayley transform by a 2p×2p solve
    "cayley-closed"     the Cayley transform by an n×n solve
    "cayley-exact"      the Cayley transform by a p×p solve
    "pogo"              no retraction: X + ξ and one normal step, within ¾‖ξ‖⁴ of the manifold
    "landing"           no retraction: X is pulled towards the manifold, its ‖XᴴX − I‖ is 0.5 at most
    ==================  =================================================================================

    "pogo" and "landing" take ξ = skew(MXᴴ)X, half the canonical gradient. "polar-ns", "qr" and
    "cholesky-qr" can be captured into a CUDA graph; the others wait for the host.

    Args:
        params: parameters, or groups of them.
        lr: the learning rate l.
        retraction: one of the names above.
        momentum: β, for both kinds of group.
        dampening, nesterov, weight_decay: as in torch.optim.SGD; Euclidean groups only.
        rounds: of "polar-ns".
        manifold, batched, orthonormalize_on_start, capturable: as in :class:`CayleySGD`.
    """

    def __init__(
        self,
        params: Params,
        lr: float,
        retraction: str = "polar",
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        rounds: int = 12,
        manifold: str = "stiefel",
        batched: bool = False,
        orthonormalize_on_start: bool = True,
        capturable: bool = False,
    ) -> None:
        super().__init__(
            params,
            dict(
                lr=lr,
                retraction=retraction,
                momentum=momentum,
                dampening=dampening,
                weight_decay=weight_decay,
                nesterov=nesterov,
                rounds=rounds,
                manifold=manifold,
                batched=batched,
                orthonormalize_on_start=orthonormalize_on_start,
                capturable=capturable,
            ),
        )

    def _nearest_start(self, group: Group) -> float:
        # What landing's own bound allows may come from a checkpoint of it (stiefel::Landing::epsilon).
        if group["retraction"] == "landing":
            return 0.5
        return super()._nearest_start(group)

    def _what_waits_for_host(self, group: Group) -> str:
        if group["retraction"] in _CAPTURABLE:
            return ""
        return (
            f"the retraction {group['retraction']!r} waits for the host and cannot be captured into a CUDA"
            f" graph; those that can are {', '.join(map(repr, _CAPTURABLE))}"
        )

    def _init_manifold_state(self, group: Group, state: State, point: Tensor) -> None:
        if group["momentum"] != 0:
            super()._init_manifold_state(group, state, point)

    def _step_manifold(self, group: Group, batch: Batch, rate: Tensor, counters: Counters) -> None:
        momenta = batch.all("momentum_buffer") if group["momentum"] != 0 else []
        torch.ops.stiefel.retraction_sgd_(
            batch.points,
            momenta,
            batch.gradients,
            counters.skipped,
            rate,
            group["momentum"],
            group["retraction"],
            group["rounds"],
            group["batched"],
            counters.off_manifold,
        )
