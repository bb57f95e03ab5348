"""What all optimizers here share."""
import difflib
import inspect
import math
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any, Callable, ClassVar, Dict, Iterable, List, Optional, Set, Tuple, Union

import torch
from torch import Tensor
from torch.optim import Optimizer

from .._errors import in_python_words, with_python_names
from .._ranks import Ranks
from ..manifold import defect, orthonormalize_
from .divided import (
    Division,
    DTensorPlace,
    adopt_dtensor,
    axis_of,
    have_gradients,
    is_dtensor,
    local_part,
    whole_of,
)
from .shared_steps import SharedSteps, Weight

Group = Dict[str, Any]
State = Dict[str, Any]
Params = Union[Iterable[Tensor], Iterable[Group]]

# A point this close is left bit for bit at the start: it may come from a checkpoint, and the first step draws
# it in.
_NEAR = 1e-3
# The largest ‖XᴴX − I‖_F from which a step can draw a matrix back onto the manifold
# (stiefel::kFarthestStart).
_FARTHEST_START = 0.5
_REDUCED = (torch.float16, torch.bfloat16)
# State tensors that hold one number per matrix.
_PER_MATRIX = ("second_moment", "step")
# The options of every optimizer here.
_COMMON_OPTIONS: Group = {
    "manifold": "stiefel",
    "batched": False,
    "orthonormalize_on_start": True,
    "capturable": False,
    "shard_dim": None,
}
# What torch itself puts into groups: names, what schedulers keep there, and how its own steps are computed.
_OF_TORCH = {"params", "name", "param_names", "foreach", "fused", "initial_lr", "max_lr", "min_lr", "swa_lr"}
_OF_TORCH |= {"base_momentum", "max_momentum"}
# Options of torch's that change the step, and that no optimizer here has: accepted where they are off.
_OF_TORCH_AND_OFF = {"maximize", "amsgrad", "differentiable"}
# Options by which to tell whose a state is that names no optimizer.
_SIGNS = (
    ("torch.optim.Adam or AdamW", {"betas", "amsgrad"}),
    ("torch.optim.SGD", {"momentum", "dampening", "nesterov"}),
    ("torch.optim.RMSprop", {"alpha", "centered"}),
    ("torch.optim.Adagrad", {"lr_decay", "initial_accumulator_value"}),
)
# All tensors of a state.
_TENSORS = ("master", "momentum_buffer", "exp_avg", "exp_avg_sq", *_PER_MATRIX)

# Whether torch.compile is tracing (torch 2.1 and later): then nothing may read a tensor's value.
_is_compiling: Callable[[], bool] = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


@dataclass
class Batch:
    """Parameters of a group that are stepped together, with their gradients and states.

    ``sharding`` are the arguments by which an operator is told that the matrices are divided among ranks;
    none where they are whole.
    """

    points: List[Tensor] = field(default_factory=list)
    gradients: List[Tensor] = field(default_factory=list)
    states: List[State] = field(default_factory=list)
    sharding: Dict[str, Any] = field(default_factory=dict)
    has_dtensors: bool = False  # in its states

    def add(self, point: Tensor, gradient: Tensor, state: State) -> None:
        self.points.append(point)
        self.gradients.append(gradient)
        self.states.append(state)

    def all(self, key: str) -> List[Tensor]:
        """One tensor of every state."""
        tensors = [state[key] for state in self.states]
        return [local_part(tensor) for tensor in tensors] if self.has_dtensors else tensors


class Counters:
    """What the steps on one device count, as 0-dim int64 tensors there."""

    def __init__(self, device: torch.device) -> None:
        self.skipped = torch.zeros((), dtype=torch.int64, device=device)
        self.off_manifold = torch.zeros((), dtype=torch.int64, device=device)
        self.reported = 0  # of the latter, how many an error has named
        self.elsewhere = torch.zeros(2, dtype=torch.int64, device=device)  # the same of other ranks' weights
        self.failures: Optional[Tensor] = None  # how many shared steps have failed, of each rank
        self.reported_failures: List[int] = []

    def total_skipped(self) -> int:
        return int(self.skipped) + int(self.elsewhere[0])


class _Rate:
    """A group's learning rate on a device, where a step reads it without waiting for the host."""

    def __init__(self, lr: Union[float, Tensor], device: torch.device, dtype: torch.dtype) -> None:
        self.tensor = torch.zeros((), dtype=dtype, device=device)
        self.value: Optional[float] = None
        self.set(lr)

    def set(self, lr: Union[float, Tensor]) -> None:
        if isinstance(lr, Tensor):
            self.tensor.copy_(lr)
            self.value = None
        elif self.value != lr:
            self.tensor.fill_(lr)
            self.value = lr


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raises ValueError unless low ≤ value < high."""
    if not low <= value < high:
        raise ValueError(f"stiefel: {name} must lie in [{low:g}, {high:g}); got {value}")


def check_not_negative(name: str, value: float) -> None:
    if not 0 <= value < math.inf:  # false for NaN; torch.compile cannot trace math.isfinite
        raise ValueError(f"stiefel: {name} must be finite and not negative; got {value}")


def reads_rate_on_device(group: Group, lr: Union[float, Tensor]) -> bool:
    """Whether a Euclidean step reads its rate on a GPU and counts its steps there, to be captured into a CUDA
    graph. torch.compile, which traces every step as capturable, has graphs of its own."""
    return group["capturable"] and isinstance(lr, Tensor) and lr.is_cuda and not _is_compiling()


class ManifoldOptimizer(Optimizer):
    """Groups on the manifold beside Euclidean ones, the checks at the start, and states from which training
    continues bit for bit on the CPU.

    A group has ``manifold="stiefel"`` (the default) or ``"euclidean"``, and ``batched=True`` where its
    parameters (…, p, n) are stacks of matrices. Parameters on the manifold are checked when they are first
    seen: a matrix within 1e-3 of the manifold is left as it is, one further off is replaced by the nearest
    orthonormal one with a warning, and one without full rank is an error. Later a matrix that is off by more
    than 0.5, because it was loaded or scaled, is left in place while all others move, and an error names it:
    from ``step()`` on the CPU, and from ``skipped_steps()`` on a GPU, where a step does not wait for the
    device.

    A half or bfloat16 parameter on the manifold is the rounding of a float32 ``master`` in its state. A
    matrix whose gradient is not finite stays where it is; ``skipped_steps()`` counts.

    Several processes share a step after ``distribute()``: each weight is stepped by one of them. A weight of
    which each has a part, a DTensor or a parameter of a group with ``shard_dim``, is stepped where it lies.

    For an optimizer of your own, derive from this class and define ``_init_manifold_state``,
    ``_step_manifold`` and ``_step_euclidean``.
    """

    #: Options that have a meaning for Euclidean groups only, with their neutral values.
    _euclidean_only: ClassVar[Group] = {"weight_decay": 0.0}
    #: Whether the step on the manifold takes matrices that are divided: hands ``batch.sharding`` on.
    _takes_parts: ClassVar[bool] = False

    def __init__(self, params: Params, defaults: Group) -> None:
        self._init_private()
        defaults = {**_COMMON_OPTIONS, **defaults}
        listed: Any = params if isinstance(params, Tensor) else list(params)  # torch refuses a tensor
        groups = [entry for entry in listed if isinstance(entry, dict)]
        if not any(group.get("manifold") == "euclidean" for group in groups):
            # With no Euclidean group beside them the defaults are the manifold groups' own, and must suit
            # them.
            self._check_group(defaults)
        super().__init__(listed, defaults)

    def _init_private(self) -> None:
        self._rates: Dict[Tuple[int, torch.device, torch.dtype], _Rate] = {}
        self._counters: Dict[torch.device, Counters] = {}
        self._skipped_before = 0  # counted by the optimizer whose state this one has loaded
        self._placed: Set[Tensor] = set()  # parameters whose start has been checked
        # Versions of half parameters when they were made their masters' roundings.
        self._written: Dict[Tensor, int] = {}
        self._sharing: Optional[SharedSteps] = None
        self._has_states_of_others = False
        self._failures = 0  # of this rank's shared steps
        self._consolidated: Optional[Dict[Tensor, State]] = None  # the states that state_dict() saves
        self._divisions: Dict[Tensor, Division] = {}  # of the parameters of which this rank has a part
        self._dtensors: Dict[Tensor, DTensorPlace] = {}  # those on the manifold
        self._ranks: Dict[int, Ranks] = {}  # of the DTensors' process groups
        self._counters_of_parts: Dict[torch.device, Counters] = {}  # which count alike on every rank

    # What an optimizer defines.

    def _init_manifold_state(self, group: Group, state: State, point: Tensor) -> None:
        """Fills the state of a point at its first step."""
        raise NotImplementedError

    def _step_manifold(self, group: Group, batch: Batch, rate: Tensor, counters: Counters) -> None:
        """One step of points of one type on one device. Called with an empty batch to check a group's
        options."""
        raise NotImplementedError

    def _step_euclidean(self, group: Group, batch: Batch, lr: Union[float, Tensor]) -> None:
        """One step of Euclidean parameters."""
        raise NotImplementedError

    def _check_options(self, group: Group) -> None:
        """Raises ValueError naming the first option that is out of range."""

    def _what_waits_for_host(self, group: Group) -> str:
        """The part of a step on the manifold that waits for the host, so that the step cannot be captured
        into a CUDA graph, and what to use instead; empty where there is none."""
        return ""

    def _is_on_manifold(self, group: Group, parameter: Tensor) -> bool:
        return group["manifold"] == "stiefel"

    # Groups.

    def _check_group(self, group: Group) -> None:
        if group["manifold"] not in ("stiefel", "euclidean"):
            raise ValueError(
                f"stiefel: no manifold is called {group['manifold']!r}; it is 'stiefel' or 'euclidean'"
            )
        if not isinstance(group["lr"], Tensor):
            check_not_negative("lr", group["lr"])
        check_not_negative("weight_decay", group["weight_decay"])
        if group["shard_dim"] not in (None, 0, 1):
            raise ValueError(f"stiefel: shard_dim must be 0 or 1, or None; got {group['shard_dim']!r}")
        self._check_options(group)
        if group["manifold"] == "euclidean":
            return
        if group["shard_dim"] is not None:
            self._check_takes_parts()
        for name, neutral in self._euclidean_only.items():
            if group[name] != neutral:
                why = (
                    "whose length cannot decay (the projection would undo it)"
                    if name == "weight_decay"
                    else "whose momentum has none"
                )
                raise ValueError(
                    f"stiefel: {name} is {group[name]} on a group of orthonormal matrices, {why}; set it on "
                    "Euclidean groups only"
                )

    def _check_takes_parts(self) -> None:
        if not self._takes_parts:
            raise ValueError(
                f"stiefel: {type(self).__name__} steps whole weights, and a parameter is divided among ranks;"
                " keep it whole on every rank, or take CayleySGD, CayleyAdam or CayleyMuon"
            )

    def _check_method(self, group: Group, division: Optional[Division] = None) -> None:
        """The operator checks its options; asked with an empty batch, it does nothing else."""
        cpu = torch.device("cpu")
        batch = Batch(sharding=_sharding_of(division)) if division is not None else Batch()
        try:
            self._step_manifold(group, batch, torch.zeros((), dtype=torch.float64), Counters(cpu))
        except RuntimeError as error:
            raise ValueError(with_python_names(str(error))) from None

    def _check_names(self, group: Group) -> None:
        """A misspelt option would leave the default in its place."""
        for name in group:
            off = name in _OF_TORCH_AND_OFF and not group[name]
            if name in self.defaults or name in _OF_TORCH or off:
                continue
            near = difflib.get_close_matches(str(name), self.defaults, 1)
            meant = f"did you mean {near[0]!r}?" if near else f"the options are {', '.join(self.defaults)}."
            raise ValueError(
                f"stiefel: {type(self).__name__} has no option {name!r} for a parameter group;"
                f" {meant} Entries of your own can be set in optimizer.param_groups afterwards"
            )

    def add_param_group(self, param_group: Group) -> None:
        """Adds a group. Options that it lacks are the defaults; those that only Euclidean groups use are not
        handed on to a group on the manifold."""
        if not isinstance(param_group, dict):
            raise TypeError(f"stiefel: a parameter group is a dict; got {type(param_group).__name__}")
        parameters = param_group["params"]
        if isinstance(parameters, Tensor):
            param_group["params"] = [parameters]
        elif not isinstance(parameters, set):  # which torch refuses
            param_group["params"] = list(parameters)
        if param_group.get("manifold", self.defaults["manifold"]) == "stiefel":
            for name, neutral in self._euclidean_only.items():
                param_group.setdefault(name, neutral)
        self._check_names(param_group)
        options = {**self.defaults, **param_group}
        self._check_group(options)
        self._check_method(options)
        waits = self._what_waits_for_host(options) if options["manifold"] == "stiefel" else ""
        if options["capturable"] and waits:
            raise ValueError(f"stiefel: capturable is True, but {waits}")
        _check_listed_once(param_group)
        _check_no_dtensors(options)
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        try:
            self._place(group)
        except Exception:
            self.param_groups.pop()
            self._placed.difference_update(group["params"])
            raise

    # The start.

    def _nearest_start(self, group: Group) -> float:
        """The largest ‖XᴴX − I‖_F that is left bit for bit when a parameter is first seen."""
        return _NEAR

    @torch.no_grad()
    def _place(self, group: Group) -> None:
        """Checks parameters that have not been seen yet, and makes them orthonormal where they are not."""
        new = [p for p in group["params"] if p not in self._placed]
        if not new:
            return
        if group["shard_dim"] is not None and self._sharing is None:
            new = [p for p in new if not self._is_on_manifold(group, p)]  # distribute() comes back to them
        self._placed.update(new)
        new = [p for p in new if self._is_on_manifold(group, p)]
        mended, worst, worst_shape = 0, 0.0, None
        for parameter in new:
            _check_type(parameter, divided=group["shard_dim"] is not None)
            division = self._divide(group, parameter)
            place = self._dtensors.get(parameter)
            point = parameter.detach() if place is None else place.bring(parameter.detach())
            if parameter.dtype in _REDUCED:
                # Rounding alone takes such a parameter off the manifold, so this is no cause for a warning.
                if "master" not in self.state[parameter]:
                    master = point.float()
                    _orthonormalize(master, group["batched"], division)
                    self.state[parameter]["master"] = master
                    self._write_rounding(parameter)
                continue
            off = _distance(point, group["batched"], division)
            if off <= self._nearest_start(group):
                continue
            if not group["orthonormalize_on_start"]:
                if group.get("polish", True) and not off <= _FARTHEST_START:
                    raise ValueError(
                        f"stiefel: a parameter of shape {tuple(parameter.shape)} is off the manifold by ‖XᴴX"
                        f" − I‖ = {off:g}, too far for a step to draw it in ({_FARTHEST_START}); call"
                        " stiefel.orthonormalize_ on it or leave orthonormalize_on_start on"
                    )
                continue
            _orthonormalize(point, group["batched"], division)
            if place is not None:
                place.write(point, parameter)
            mended += 1
            if not off <= worst:
                worst, worst_shape = off, tuple(parameter.shape)
        if mended:
            warnings.warn(
                (
                    f"stiefel: {mended} of {len(new)} parameters were not orthonormal (‖XᴴX − I‖ up to"
                    f" {worst:g}, shape {worst_shape}) and were replaced by the nearest orthonormal matrices;"
                    " initialize them with stiefel.init or stiefel.orthonormalize_ to choose the start"
                    " yourself"
                ),
                stacklevel=4,
            )

    def _divide(self, group: Group, parameter: Tensor) -> Optional[Division]:
        """How a parameter is divided among ranks; none where this rank has it whole. Called by all ranks."""
        batched = group["batched"]
        if is_dtensor(parameter):
            place = self._dtensors[parameter] = DTensorPlace(parameter, batched)
            if place.mesh_dim is None:
                return None
            self._check_takes_parts()
            process_group = place.group()
            if id(process_group) not in self._ranks:
                self._ranks[id(process_group)] = Ranks(process_group)
            part = local_part(place.bring(parameter.detach()))
            division = Division(part, place.axis, place.dim, batched, self._ranks[id(process_group)])
        elif group["shard_dim"] is not None:
            assert self._sharing is not None
            dim = group["shard_dim"]
            division = Division(
                parameter, axis_of(dim, parameter, batched), dim, batched, self._sharing.ranks
            )
        else:
            return None
        self._check_method(group, division)
        self._divisions[parameter] = division
        return division

    def _write_rounding(self, parameter: Tensor) -> None:
        """Makes a half or bfloat16 parameter the rounding of its master."""
        master = self.state[parameter]["master"]
        if self._dtensors and parameter in self._dtensors:
            self._dtensors[parameter].write(master, parameter)
        else:
            parameter.detach().copy_(master)
        if not _is_compiling():  # a compiled step knows no versions
            self._written[parameter] = local_part(parameter)._version

    def _follow_changes(self, parameter: Tensor, master: Tensor, batched: bool) -> None:
        """A parameter that someone else has written since becomes its own new master; a loaded master is
        trusted."""
        if _is_compiling():
            # Neither a version nor a value can be read: written is what is not the master's rounding. The
            # step itself draws it in.
            written = (parameter.detach() != master.to(parameter.dtype)).any()
            master.copy_(torch.where(written, parameter.detach().float(), master))
            return
        version = local_part(parameter)._version
        if self._written.get(parameter, version) == version:
            return
        place = self._dtensors.get(parameter)
        point = parameter.detach() if place is None else local_part(place.bring(parameter.detach()))
        master = local_part(master)
        if torch.equal(point, master.to(point.dtype)):  # written by a compiled step, or with itself
            self._written[parameter] = version
            return
        point = point.float()
        # Rounding alone takes it off the manifold. What is further off is left to the step to refuse, and so
        # is a part, of which no rank sees the distance.
        if parameter not in self._divisions and defect(point, batched).max().item() <= _FARTHEST_START:
            orthonormalize_(point, batched)
        master.copy_(point)

    # A step.

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Performs one step. Gradients are read, never changed; parameters without one are passed over."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        compiling = _is_compiling()
        if not compiling:
            self._check_ranks()
            self._check_capture()
        if self._sharing is None:
            self._step_groups(compiling)
        else:
            self._share_step(self._sharing)
        if not compiling:
            for counters_of in (self._counters, self._counters_of_parts):
                for device, counters in counters_of.items():
                    if device.type == "cpu":
                        self._report_off_manifold(device, counters)
        return loss

    def _step_groups(self, compiling: bool) -> None:
        for index, group in enumerate(self.param_groups):
            self._check_group(group)
            if not compiling:
                self._place(group)
            self._step_group(index, group)

    def _step_group(self, index: int, group: Group) -> None:
        batches: Dict[Any, Batch] = {}
        euclidean: Dict[torch.device, Batch] = {}
        rounded, elsewhere = [], []
        flows = self._where_gradients_flow(group) if self._divisions else {}
        for parameter in group["params"]:
            gradient = parameter.grad
            if not flows.get(parameter, gradient is not None):
                continue
            if gradient is None:  # of a part that is empty, through which none flows
                gradient = torch.zeros_like(parameter)
            if gradient.layout != torch.strided:
                raise RuntimeError(
                    f"stiefel: a gradient of shape {tuple(parameter.shape)} is sparse, which this optimizer "
                    "does not support; make it dense"
                )
            if not self._is_on_manifold(group, parameter):
                _batch_of(euclidean, parameter.device).add(parameter, gradient, self.state[parameter])
                continue
            division = self._divisions.get(parameter) if self._divisions else None
            if self._sharing is not None and division is None and not self._sharing.is_mine(parameter):
                continue
            state = self.state[parameter]
            place = self._dtensors.get(parameter) if self._dtensors else None
            if place is not None:
                gradient = place.bring(gradient)
            point = state.get("master")
            if point is None:
                point = parameter.detach()
                if place is not None and place.placements != place.home:
                    point = place.bring(point)
                    elsewhere.append((place, point, parameter))
            else:
                self._follow_changes(parameter, point, group["batched"])
                gradient = gradient.to(point.dtype)
                rounded.append(parameter)
            self._init_manifold_state(group, state, point)
            if place is not None:
                point, gradient = local_part(point), local_part(gradient)
            key = (point.dtype, point.device)
            if place is not None or division is not None:
                key = (*key, place is None, division and (division.ranks.name, division.dim))
            batch = _batch_of(batches, key)
            batch.add(point, gradient, state)
            batch.has_dtensors = place is not None
            if division is not None:
                lengths = batch.sharding.get("lengths", [])
                batch.sharding = {**_sharding_of(division), "lengths": [*lengths, division.length]}
        for (_, device, *apart), batch in batches.items():
            rate = self._rate(index, device, torch.float64)
            counters = self._counters_on(device, bool(batch.sharding))
            self._step_manifold(group, batch, rate, counters)
        for parameter in rounded:
            self._write_rounding(parameter)
        for place, point, parameter in elsewhere:
            place.write(point, parameter)
        for device, batch in euclidean.items():
            capturable = group["capturable"] and device.type == "cuda" and not _is_compiling()
            self._step_euclidean(
                group, batch, self._rate(index, device, torch.float32) if capturable else group["lr"]
            )

    def _where_gradients_flow(self, group: Group) -> Dict[Tensor, bool]:
        """Whether the parameters that are divided among ranks have a gradient; called by all ranks."""
        parts = [parameter for parameter in group["params"] if parameter in self._divisions]
        return dict(zip(parts, have_gradients(parts, [self._divisions[part] for part in parts])))

    # Several processes.

    @torch.no_grad()
    def distribute(self, process_group: Any = None) -> None:
        """Shares the steps of weights on the manifold among the ranks of a torch.distributed process group.

        Every rank has the same weights and the same gradients, as under DistributedDataParallel. Each weight
        is stepped by its owner, which alone keeps its momentum; weights are dealt out so that the work,
        np² + p³ per matrix, is even. One message at the end of ``step()`` hands them all to all ranks, which
        so stay equal bit for bit. Euclidean groups are stepped by every rank. ``skipped_steps()`` counts the
        matrices of all ranks, and errors are raised on all of them.

        Parameters of groups with ``shard_dim`` are this rank's parts of weights, and are stepped where they
        lie: 0 where a part has some of the rows of a weight whose columns are orthonormal, 1 where it has
        some of the columns of one whose rows are.

        Called by all ranks, before the first step; so are ``step()`` and ``consolidate_state_dict()``.

        Args:
            process_group: the default one where there is none.
        """
        if self._sharing is not None:
            raise RuntimeError("stiefel: the steps of this optimizer are shared among ranks already")
        sharing = SharedSteps(Ranks(process_group))
        # What every rank has whole is known without the ranks, and must be alike on all.
        weights = self._shared_weights()
        device = next((local_part(p).device for group in self.param_groups for p in group["params"]), None)
        sharing.check_equal(weights, device or torch.device("cpu"))
        sharing.assign(weights)
        self._sharing = sharing
        self._has_states_of_others = True
        try:
            for group in self.param_groups:
                self._place(group)
        except Exception:
            self._sharing = None
            raise

    def _check_ranks(self) -> None:
        if self._sharing is not None:
            return
        for group in self.param_groups:
            if group["shard_dim"] is not None and group["manifold"] == "stiefel":
                raise RuntimeError(
                    f"stiefel: a parameter group has shard_dim={group['shard_dim']}, so other ranks have"
                    " parts of its weights; call distribute() on every rank first"
                )

    def _shared_weights(self) -> List[Weight]:
        """All weights on the manifold that every rank has whole, in the order of the groups."""
        result = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if not self._is_on_manifold(group, parameter):
                    continue
                if parameter in self._divisions or (
                    group["shard_dim"] is not None and parameter not in self._dtensors
                ):
                    continue
                result.append(Weight(parameter, local_part(parameter.detach()), group["batched"]))
        return result

    def _share_step(self, sharing: SharedSteps) -> None:
        """A step of which each rank takes a part. A rank whose part fails takes part in the exchange all the
        same, since the others wait for it."""
        self._consolidated = None
        weights = self._shared_weights()
        sharing.assign(weights)
        if self._has_states_of_others:
            self._has_states_of_others = False
            for weight in weights:
                if not sharing.is_mine(weight.parameter):
                    self.state.pop(weight.parameter, None)
        failure: Optional[Exception] = None
        try:
            self._step_groups(False)
        except Exception as error:
            failure = error
            self._failures += 1
        devices: Dict[torch.device, List[Weight]] = {}
        for weight in weights:
            if weight.parameter.grad is not None:
                devices.setdefault(weight.local.device, []).append(weight)
        for device, moved in devices.items():
            counters = self._counters_on(device)
            failures = torch.full_like(counters.skipped, self._failures)
            mine = torch.stack([counters.skipped, counters.off_manifold, failures])
            everywhere = sharing.exchange(moved, mine)
            counters.elsewhere.copy_(everywhere.sum(0).sub_(mine)[:2])
            counters.failures = everywhere[:, 2]
        if failure is not None:
            raise failure
        for device in devices:
            if device.type == "cpu":
                self._report_failures(self._counters[device])

    def _report_failures(self, counters: Counters) -> None:
        """Raises RuntimeError where steps of other ranks have failed since the last time."""
        if counters.failures is None or self._sharing is None:
            return
        failures = counters.failures.tolist()
        before = counters.reported_failures or [0] * len(failures)
        counters.reported_failures = failures
        failed = [rank for rank, (now, then) in enumerate(zip(failures, before)) if now > then]
        if any(rank != self._sharing.ranks.rank for rank in failed):
            raise RuntimeError(
                f"stiefel: the step has failed on rank {', '.join(map(str, failed))}, so that not all of its"
                " weights have moved; the error there says why"
            )

    @torch.no_grad()
    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings the states of all ranks together on one rank, whose ``state_dict()`` then has them whole
        until the next step: a state as one process has it, to be loaded with any number of ranks.

        Called by all ranks.

        Args:
            to: the rank, of the process group of ``distribute()``.
        """
        sharing = self._sharing
        if sharing is None:
            raise RuntimeError(
                "stiefel: consolidate_state_dict() is for an optimizer whose steps are shared by"
                " distribute(); any other has its whole state in state_dict()"
            )
        if not 0 <= to < sharing.ranks.size:
            raise ValueError(
                f"stiefel: there is no rank {to} to bring the states to; there are {sharing.ranks.size}"
            )
        whole: Dict[Tensor, State] = {}
        owned: Dict[Tuple[int, torch.device], List[Tensor]] = {}
        for weight in self._shared_weights():
            owned.setdefault((sharing.owner(weight.parameter), weight.local.device), []).append(
                weight.parameter
            )
        for (owner, device), parameters in owned.items():
            if owner == to:
                continue
            states = [
                {key: local_part(value) for key, value in self.state.get(parameter, {}).items()}
                for parameter in parameters
            ]
            whole.update(zip(parameters, sharing.broadcast(states, owner, device)))
        for group in self.param_groups:
            for parameter in group["params"]:
                division = self._divisions.get(parameter)
                if division is None and not is_dtensor(parameter):
                    continue
                state = whole.get(parameter, self.state.get(parameter, {}))
                whole[parameter] = {
                    key: (
                        whole_of(value)
                        if division is None
                        or is_dtensor(value)
                        or key in _PER_MATRIX
                        or not isinstance(value, Tensor)
                        else division.gather(value)
                    )
                    for key, value in state.items()
                }
        if sharing.ranks.rank == to:
            self._consolidated = whole

    # Rates on the device.

    def _rate(self, index: int, device: torch.device, dtype: torch.dtype) -> Tensor:
        lr = self.param_groups[index]["lr"]
        key = (index, device, dtype)
        if key in self._rates:
            self._rates[key].set(lr)
        else:
            self._rates[key] = _Rate(lr, device, dtype)
        return self._rates[key].tensor

    @torch.no_grad()
    def refresh_rates(self) -> None:
        """Writes the groups' rates to the devices where they have changed. A step does so itself; the replay
        of a captured CUDA graph does not, so call it before a replay when a scheduler has changed a rate."""
        for (index, _, _), rate in self._rates.items():
            rate.set(self.param_groups[index]["lr"])

    def _check_capture(self) -> None:
        """A capture that would make buffers at every replay, or freeze a rate, is an error."""
        if not (torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()):
            return
        for index, group in enumerate(self.param_groups):
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                on_manifold = self._is_on_manifold(group, parameter)
                # First of all: a capture that breaks inside a solver can leave the solver broken.
                waits = self._what_waits_for_host(group) if on_manifold else ""
                if waits:
                    raise RuntimeError(f"stiefel: a step is captured into a CUDA graph, but {waits}")
                if on_manifold and (index, parameter.device, torch.float64) not in self._rates:
                    raise RuntimeError(
                        "stiefel: a step is captured into a CUDA graph before it was ever taken, so every "
                        "replay would make its buffers again; take one step before the capture"
                    )
                if not on_manifold and not group["capturable"]:
                    raise RuntimeError(
                        "stiefel: a Euclidean group is captured into a CUDA graph with capturable=False, "
                        "which would freeze its rate; construct the optimizer with capturable=True"
                    )
            for (of, _, _), rate in self._rates.items():
                if of == index and rate.value is not None and rate.value != group["lr"]:
                    raise RuntimeError(
                        f"stiefel: a rate has changed to {group['lr']} since the last step, and a capture "
                        "would freeze it; call refresh_rates() before the capture"
                    )

    # Counters.

    def _counters_on(self, device: torch.device, of_parts: bool = False) -> Counters:
        counters_of = self._counters_of_parts if of_parts else self._counters
        if device not in counters_of:
            counters_of[device] = Counters(device)
        return counters_of[device]

    def _total_skipped(self) -> int:
        every = (*self._counters.values(), *self._counters_of_parts.values())
        return self._skipped_before + sum(counters.total_skipped() for counters in every)

    def skipped_steps(self) -> int:
        """How often a matrix was left in place: its gradient was not finite, it was too far off the manifold,
        or the retraction failed. Waits for the device. Raises RuntimeError, once for each time, where a step
        on a GPU found matrices too far off the manifold."""
        for counters_of in (self._counters, self._counters_of_parts):
            for device, counters in counters_of.items():
                self._report_failures(counters)
                self._report_off_manifold(device, counters)
        return self._total_skipped()

    def _report_off_manifold(self, device: torch.device, counters: Counters) -> None:
        off = int(counters.off_manifold) + int(counters.elsewhere[1])
        if off == counters.reported:
            return
        matrices = off - counters.reported
        counters.reported = off
        were = "matrix was" if matrices == 1 else "matrices were"
        if counters is self._counters_of_parts.get(device):
            # Each rank sees its own part only.
            raise RuntimeError(
                f"stiefel: {matrices} divided {were} left in place, being off the manifold by more than"
                f" {_FARTHEST_START}, too far for a step to draw in. Was a weight loaded or scaled after the"
                " optimizer was made? Make the whole weight orthonormal, or make the optimizer again, which"
                " does so"
            )
        distances = []
        for weight in self._shared_weights():
            if weight.local.device == device:
                point = self.state.get(weight.parameter, {}).get("master", weight.local)
                distance = defect(local_part(point), weight.batched).max().item()
                distances.append((math.inf if math.isnan(distance) else distance, tuple(point.shape)))
        distance, shape = max(distances, default=(0.0, ()))
        if distance <= _FARTHEST_START:
            raise RuntimeError(
                f"stiefel: {matrices} {were} left in place at an earlier step, being too far off the manifold"
                " for a step to draw in"
            )
        raise RuntimeError(
            f"stiefel: {matrices} {were} left in place: a weight of shape {shape} is off the manifold by "
            f"‖XᴴX − I‖ = {distance:g}, too far for a step to draw it in ({_FARTHEST_START}). Was it loaded "
            "or scaled after the optimizer was made? Call stiefel.orthonormalize_ on it"
        )

    # States.

    def state_dict(self) -> Dict[str, Any]:
        """The state as torch.optim has it, with the count of skipped steps beside it. After ``distribute()``
        it is of the rank to which ``consolidate_state_dict()`` has brought it."""
        if self._sharing is None:
            result = super().state_dict()
        else:
            result = self._consolidated_state_dict(self._sharing.ranks.rank)
        result["stiefel"] = {"optimizer": type(self).__name__, "skipped_steps": self._total_skipped()}
        return result

    def _consolidated_state_dict(self, rank: int) -> Dict[str, Any]:
        if self._consolidated is None:
            raise RuntimeError(
                "stiefel: the states of a distributed optimizer lie on several ranks; call"
                f" consolidate_state_dict(to={rank}) on every rank after the last step, then state_dict() on"
                f" rank {rank}"
            )
        mine = self.state
        self.state = defaultdict(dict, {**mine, **self._consolidated})
        try:
            return super().state_dict()
        finally:
            self.state = mine

    @torch.no_grad()
    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Loads a state. Tensors keep the types in which they were saved: a float32 master of a bfloat16
        parameter stays float32. Options that the state lacks, being from a version that did not have them,
        stay as they are. A state that does not fit raises ValueError and changes nothing."""
        before = self.state, self.param_groups  # torch replaces both
        try:
            self._load(state_dict)
        except Exception:
            self.state, self.param_groups = before
            raise

    def _load(self, state_dict: Dict[str, Any]) -> None:
        if not hasattr(self, "register_load_state_dict_pre_hook"):  # before torch 2.1
            state_dict = self._check_state(state_dict)
            super().load_state_dict(state_dict)
            self._adopt_state(state_dict)
            return
        # The user's hooks may replace the state before it is loaded, and see it after.
        replaced: Dict[str, Any] = {}

        def check(_: Optimizer, state: Dict[str, Any]) -> Dict[str, Any]:
            replaced.update(self._check_state(state))
            return replaced

        handles = [
            self.register_load_state_dict_pre_hook(check),
            self.register_load_state_dict_post_hook(lambda _: self._adopt_state(replaced), prepend=True),
        ]
        try:
            super().load_state_dict(state_dict)
        finally:
            for handle in handles:
                handle.remove()

    def _adopt_state(self, state_dict: Dict[str, Any]) -> None:
        """What torch has loaded as it loads its own states, put right."""
        for parameter, group, saved in self._saved_states(state_dict):
            for key, value in saved.items():
                if isinstance(value, Tensor):
                    self.state[parameter][key] = self._adopt(key, value, parameter, group)
        self._rates.clear()
        self._counters.clear()
        self._counters_of_parts.clear()
        self._written.clear()
        self._failures = 0
        self._consolidated = None
        self._has_states_of_others = self._sharing is not None
        self._skipped_before = state_dict.get("stiefel", {}).get("skipped_steps", 0)

    def _saved_states(self, state_dict: Dict[str, Any]) -> List[Tuple[Tensor, Group, State]]:
        """Each parameter that has a saved state, with its group's saved options and that state."""
        result = []
        for group, saved_group in zip(self.param_groups, state_dict["param_groups"]):
            for parameter, key in zip(group["params"], saved_group["params"]):
                if key in state_dict["state"]:
                    result.append((parameter, saved_group, state_dict["state"][key]))
        return result

    def _check_state(self, state_dict: Dict[str, Any]) -> Dict[str, Any]:
        """The state with all options of its groups. Everything is checked first, so that a bad state changes
        nothing."""
        if not isinstance(state_dict, dict) or not {"state", "param_groups"} <= set(state_dict):
            entries = ", ".join(map(repr, state_dict)) if isinstance(state_dict, dict) else type(state_dict).__name__
            raise ValueError(
                "stiefel: this is no state of an optimizer, which has the entries 'state' and 'param_groups';"
                f" it has {entries or 'none'}. Load what state_dict() has returned"
            )
        for key, kind in (("state", dict), ("param_groups", list), ("stiefel", dict)):
            if not isinstance(state_dict.get(key, {}), kind):
                raise ValueError(
                    f"stiefel: the state has no {key!r} that is a {kind.__name__}: it is damaged; load another copy"
                )
        skipped = state_dict.get("stiefel", {}).get("skipped_steps", 0)
        if not isinstance(skipped, int) or skipped < 0:
            raise ValueError(f"stiefel: the state's skipped_steps is {skipped!r}, not a count: it is damaged")
        groups = state_dict["param_groups"]
        for group in groups:
            if not isinstance(group, dict) or not isinstance(group.get("params"), list):
                raise ValueError("stiefel: a saved parameter group has no list 'params': it is damaged")
        self._check_ranks()
        saved_by = state_dict.get("stiefel", {}).get("optimizer")
        if saved_by is None and any("manifold" not in group for group in groups):
            saved_by = _whose(groups)
        if saved_by not in (None, type(self).__name__):
            raise ValueError(
                f"stiefel: the state is of {saved_by}, not of {type(self).__name__}; load it with"
                " the optimizer that saved it"
            )
        # torch checks their numbers before it loads anything. How weights are divided is no part of a state.
        completed = [
            {**{name: group[name] for name in self.defaults}, **saved, "shard_dim": group["shard_dim"]}
            for group, saved in zip(self.param_groups, groups)
        ]
        if len(completed) == len(groups):
            state_dict = {**state_dict, "param_groups": completed}
        for group in completed:
            self._check_group(group)
            self._check_method(group)
        for parameter, group, saved in self._saved_states(state_dict):
            if not isinstance(saved, dict):
                raise ValueError(f"stiefel: the saved state of a parameter is {type(saved).__name__}, not a dictionary")
            for key, value in saved.items():
                if not isinstance(value, Tensor):
                    if key in _TENSORS and not (key == "momentum_buffer" and value is None):
                        raise ValueError(
                            f"stiefel: the saved {key!r} of a parameter of shape {tuple(parameter.shape)} is"
                            f" {type(value).__name__}, not a tensor: it is damaged; load another copy"
                        )
                    continue
                real = key in _PER_MATRIX or key == "master"
                if key in _TENSORS and (
                    value.layout != torch.strided
                    or value.is_complex() != (parameter.is_complex() and not real)
                    or not (value.is_complex() or value.is_floating_point())
                ):
                    raise ValueError(
                        f"stiefel: the saved {key!r} of a parameter {parameter.dtype} is {value.dtype}, {value.layout}:"
                        " it is damaged, or of another parameter"
                    )
                division = self._divisions.get(parameter)
                expected = parameter.shape if division is None else division.whole_shape
                if key in _PER_MATRIX:
                    stacked = group["batched"] and self._is_on_manifold(group, parameter)
                    expected = parameter.shape[:-2] if stacked else torch.Size()
                if value.shape != expected:
                    raise ValueError(
                        f"stiefel: the saved {key!r} of a parameter of shape {tuple(parameter.shape)} has the"
                        f" shape {tuple(value.shape)} instead of {tuple(expected)}"
                    )
        return state_dict

    def _adopt(self, key: str, value: Tensor, parameter: Tensor, group: Group) -> Tensor:
        """A loaded tensor where a step expects it: numbers on the parameter's device (Euclidean step counts
        on the CPU, as torch.optim has them), the others in the parameter's own layout."""
        if key in _PER_MATRIX:
            on_device = self._is_on_manifold(group, parameter) or group.get("capturable", False)
            return value.detach().clone().to(parameter.device if on_device else "cpu")
        if is_dtensor(parameter):
            return adopt_dtensor(value, parameter, self._dtensors.get(parameter))
        if parameter in self._divisions:
            value = self._divisions[parameter].part_of(value)
        return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)

    def __getstate__(self) -> Dict[str, Any]:
        if self._sharing is not None:
            raise RuntimeError(
                "stiefel: an optimizer whose steps are shared among processes cannot be copied or pickled;"
                " save its state by consolidate_state_dict() and state_dict()"
            )
        return {**super().__getstate__(), "_skipped_before": self._total_skipped()}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        loads = "_rates" in self.__dict__  # load_state_dict calls this too; else a copy, or unpickled
        if not loads:
            self._init_private()
        super().__setstate__(state)
        if loads:
            return
        # An optimizer that another version has pickled may lack options, also among its defaults.
        self.defaults = {**_COMMON_OPTIONS, **_constructor_defaults(type(self)), **self.defaults}
        for group in self.param_groups:
            for name, value in self.defaults.items():
                group.setdefault(name, value)


def _constructor_defaults(kind: type) -> Group:
    """The options that the constructor of an optimizer has defaults for."""
    parameters = inspect.signature(kind.__init__).parameters.values()
    return {each.name: each.default for each in parameters if each.default is not inspect.Parameter.empty}


def _whose(groups: List[Group]) -> str:
    """The optimizer that has saved groups which are not of one here, as far as their options tell."""
    names = set().union(*groups) - {"params"}
    guess = next((f"{optimizer}, or one like it" for optimizer, signs in _SIGNS if signs <= names), "")
    return guess or f"another optimizer (with the options {', '.join(sorted(map(str, names)))})"


def _check_listed_once(group: Group) -> None:
    """A parameter that is listed twice would move twice in a step. Of two groups torch checks it."""
    seen: Set[int] = set()
    for parameter in group["params"]:
        if id(parameter) in seen and isinstance(parameter, Tensor):
            raise ValueError(
                f"stiefel: a parameter of shape {tuple(parameter.shape)} is listed twice in a group; list"
                " each once"
            )
        seen.add(id(parameter))


def _check_no_dtensors(group: Group) -> None:
    """shard_dim is for parts that do not say themselves how they are divided."""
    if group["shard_dim"] is None or group["manifold"] == "euclidean":
        return
    for parameter in group["params"]:
        if is_dtensor(parameter):
            raise ValueError(
                f"stiefel: shard_dim is {group['shard_dim']} and a parameter of shape"
                f" {tuple(parameter.shape)} is a DTensor, which says itself how it is divided; leave"
                " shard_dim out"
            )


def _batch_of(batches: Dict[Any, Batch], key: Any) -> Batch:
    batch = batches.get(key)
    if batch is None:
        batch = batches[key] = Batch()
    return batch


def _sharding_of(division: Division) -> Dict[str, Any]:
    """The arguments of an operator for weights that are divided so, of which there are none yet."""
    return {"ranks": division.ranks.name, "shard_dim": division.dim, "lengths": []}


def _distance(point: Tensor, batched: bool, division: Optional[Division]) -> float:
    """The largest ‖XᴴX − I‖_F of the matrices of a point; of one that is divided, called by all ranks."""
    if division is None:
        return defect(local_part(point), batched).max().item()
    of = torch.ops.stiefel.sharded_defect(local_part(point), division.ranks.name, division.dim, batched)
    return of.max().item()


@in_python_words
def _orthonormalize(point: Tensor, batched: bool, division: Optional[Division]) -> None:
    """Makes a point orthonormal, in place; one that is divided by all ranks."""
    if division is None:
        orthonormalize_(local_part(point), batched)
    else:
        torch.ops.stiefel.sharded_orthonormalize_(
            local_part(point), division.ranks.name, division.dim, batched
        )


def _check_type(parameter: Tensor, divided: bool) -> None:
    if parameter.layout != torch.strided:
        raise TypeError(f"stiefel: a parameter on the manifold must be dense; got {parameter.layout}")
    if not (parameter.is_floating_point() or parameter.is_complex()):
        raise TypeError(
            "stiefel: a parameter on the manifold must be floating-point or complex; got "
            f"{parameter.dtype} {tuple(parameter.shape)}"
        )
    if parameter.dim() < 2 or (parameter.numel() == 0 and not divided):
        raise ValueError(
            "stiefel: a parameter on the manifold needs two or more dimensions and elements; got the shape "
            f"{tuple(parameter.shape)}; put it in a group with manifold='euclidean'"
        )
