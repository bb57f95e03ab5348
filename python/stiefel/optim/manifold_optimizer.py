"""What all optimizers here share."""
import math
import warnings
from dataclasses import dataclass, field
from typing import Any, Callable, ClassVar, Dict, Iterable, List, Optional, Set, Tuple, Union

import torch
from torch import Tensor
from torch.optim import Optimizer

from ..manifold import defect, orthonormalize_

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
# All tensors of a state.
_TENSORS = ("master", "momentum_buffer", "exp_avg", "exp_avg_sq", *_PER_MATRIX)

# Whether torch.compile is tracing (torch 2.1 and later): then nothing may read a tensor's value.
_is_compiling: Callable[[], bool] = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)


@dataclass
class Batch:
    """Parameters of a group that are stepped together, with their gradients and states."""

    points: List[Tensor] = field(default_factory=list)
    gradients: List[Tensor] = field(default_factory=list)
    states: List[State] = field(default_factory=list)

    def add(self, point: Tensor, gradient: Tensor, state: State) -> None:
        self.points.append(point)
        self.gradients.append(gradient)
        self.states.append(state)

    def all(self, key: str) -> List[Tensor]:
        """One tensor of every state."""
        return [state[key] for state in self.states]


class Counters:
    """What the steps on one device count, as 0-dim int64 tensors there."""

    def __init__(self, device: torch.device) -> None:
        self.skipped = torch.zeros((), dtype=torch.int64, device=device)
        self.off_manifold = torch.zeros((), dtype=torch.int64, device=device)
        self.reported = 0  # of the latter, how many an error has named


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

    For an optimizer of your own, derive from this class and define ``_init_manifold_state``,
    ``_step_manifold`` and ``_step_euclidean``.
    """

    #: Options that have a meaning for Euclidean groups only, with their neutral values.
    _euclidean_only: ClassVar[Group] = {"weight_decay": 0.0}

    def __init__(self, params: Params, defaults: Group) -> None:
        self._init_private()
        defaults = {**defaults}
        for name, value in (
            ("manifold", "stiefel"),
            ("batched", False),
            ("orthonormalize_on_start", True),
            ("capturable", False),
        ):
            defaults.setdefault(name, value)
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
        self._check_options(group)
        if group["manifold"] == "euclidean":
            return
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

    def _check_method(self, group: Group) -> None:
        """The operator checks its options; asked with an empty batch, it does nothing else."""
        cpu = torch.device("cpu")
        try:
            self._step_manifold(group, Batch(), torch.zeros((), dtype=torch.float64), Counters(cpu))
        except RuntimeError as error:
            raise ValueError(str(error)) from None

    def add_param_group(self, param_group: Group) -> None:
        """Adds a group. Options that it lacks are the defaults; those that only Euclidean groups use are not
        handed on to a group on the manifold."""
        if not isinstance(param_group, dict):
            raise TypeError(f"stiefel: a parameter group is a dict; got {type(param_group).__name__}")
        if param_group.get("manifold", self.defaults["manifold"]) == "stiefel":
            for name, neutral in self._euclidean_only.items():
                param_group.setdefault(name, neutral)
        options = {**self.defaults, **param_group}
        self._check_group(options)
        self._check_method(options)
        waits = self._what_waits_for_host(options) if options["manifold"] == "stiefel" else ""
        if options["capturable"] and waits:
            raise ValueError(f"stiefel: capturable is True, but {waits}")
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
        self._placed.update(new)
        new = [p for p in new if self._is_on_manifold(group, p)]
        mended, worst, worst_shape = 0, 0.0, None
        for parameter in new:
            _check_type(parameter)
            if parameter.dtype in _REDUCED:
                # Rounding alone takes such a parameter off the manifold, so this is no cause for a warning.
                if "master" not in self.state[parameter]:
                    self.state[parameter]["master"] = orthonormalize_(
                        parameter.detach().float(), group["batched"]
                    )
                    self._write_rounding(parameter)
                continue
            off = defect(parameter, group["batched"]).max().item()
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
            orthonormalize_(parameter, group["batched"])
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

    def _write_rounding(self, parameter: Tensor) -> None:
        """Makes a half or bfloat16 parameter the rounding of its master."""
        parameter.detach().copy_(self.state[parameter]["master"])
        if not _is_compiling():  # a compiled step knows no versions
            self._written[parameter] = parameter._version

    def _follow_changes(self, parameter: Tensor, master: Tensor, batched: bool) -> None:
        """A parameter that someone else has written since becomes its own new master; a loaded master is
        trusted."""
        point = parameter.detach().float()
        if _is_compiling():
            # Neither a version nor a value can be read: written is what is not the master's rounding. The
            # step itself draws it in.
            written = (parameter.detach() != master.to(parameter.dtype)).any()
            master.copy_(torch.where(written, point, master))
            return
        if self._written.get(parameter, parameter._version) == parameter._version:
            return
        if torch.equal(parameter, master.to(parameter.dtype)):  # written by a compiled step, or with itself
            self._written[parameter] = parameter._version
            return
        # Rounding alone takes it off the manifold. What is further off is left to the step to refuse.
        if defect(point, batched).max().item() <= _FARTHEST_START:
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
            self._check_capture()
        for index, group in enumerate(self.param_groups):
            self._check_group(group)
            if not compiling:
                self._place(group)
            self._step_group(index, group)
        if not compiling:
            for device, counters in self._counters.items():
                if device.type == "cpu":
                    self._report_off_manifold(device, counters)
        return loss

    def _step_group(self, index: int, group: Group) -> None:
        batches: Dict[Tuple[torch.dtype, torch.device], Batch] = {}
        euclidean: Dict[torch.device, Batch] = {}
        rounded = []
        for parameter in group["params"]:
            gradient = parameter.grad
            if gradient is None:
                continue
            if gradient.layout != torch.strided:
                raise RuntimeError(
                    f"stiefel: a gradient of shape {tuple(parameter.shape)} is sparse, which this optimizer "
                    "does not support; make it dense"
                )
            state = self.state[parameter]
            if not self._is_on_manifold(group, parameter):
                _batch_of(euclidean, parameter.device).add(parameter, gradient, state)
                continue
            point = state.get("master")
            if point is None:
                point = parameter.detach()
            else:
                self._follow_changes(parameter, point, group["batched"])
                gradient = gradient.to(point.dtype)
                rounded.append(parameter)
            self._init_manifold_state(group, state, point)
            _batch_of(batches, (point.dtype, point.device)).add(point, gradient, state)
        for (_, device), batch in batches.items():
            rate = self._rate(index, device, torch.float64)
            self._step_manifold(group, batch, rate, self._counters_on(device))
        for parameter in rounded:
            self._write_rounding(parameter)
        for device, batch in euclidean.items():
            capturable = group["capturable"] and device.type == "cuda" and not _is_compiling()
            self._step_euclidean(
                group, batch, self._rate(index, device, torch.float32) if capturable else group["lr"]
            )

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

    def _counters_on(self, device: torch.device) -> Counters:
        if device not in self._counters:
            self._counters[device] = Counters(device)
        return self._counters[device]

    def _total_skipped(self) -> int:
        return self._skipped_before + sum(int(counters.skipped) for counters in self._counters.values())

    def skipped_steps(self) -> int:
        """How often a matrix was left in place: its gradient was not finite, it was too far off the manifold,
        or the retraction failed. Waits for the device. Raises RuntimeError, once for each time, where a step
        on a GPU found matrices too far off the manifold."""
        for device, counters in self._counters.items():
            self._report_off_manifold(device, counters)
        return self._total_skipped()

    def _report_off_manifold(self, device: torch.device, counters: Counters) -> None:
        off = int(counters.off_manifold)
        if off == counters.reported:
            return
        matrices = off - counters.reported
        counters.reported = off
        distances = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.device == device and self._is_on_manifold(group, parameter):
                    point = self.state[parameter].get("master", parameter)
                    distance = defect(point, group["batched"]).max().item()
                    distances.append((math.inf if math.isnan(distance) else distance, tuple(point.shape)))
        distance, shape = max(distances, default=(0.0, ()))
        were = "matrix was" if matrices == 1 else "matrices were"
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
        """The state as torch.optim has it, with the count of skipped steps beside it."""
        result = super().state_dict()
        result["stiefel"] = {"optimizer": type(self).__name__, "skipped_steps": self._total_skipped()}
        return result

    @torch.no_grad()
    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Loads a state. Tensors keep the types in which they were saved: a float32 master of a bfloat16
        parameter stays float32. A state that does not fit is an error and changes nothing."""
        before = self.state, self.param_groups  # torch replaces both
        try:
            self._load(state_dict)
        except Exception:
            self.state, self.param_groups = before
            raise

    def _load(self, state_dict: Dict[str, Any]) -> None:
        if not hasattr(self, "register_load_state_dict_pre_hook"):  # before torch 2.1
            self._check_state(state_dict)
            super().load_state_dict(state_dict)
            self._adopt_state(state_dict)
            return
        # The user's hooks may replace the state before it is loaded, and see it after.
        replaced: Dict[str, Any] = {}

        def check(_: Optimizer, state: Dict[str, Any]) -> None:
            self._check_state(state)
            replaced.update(state)

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
        for group in self.param_groups:
            self._check_group(group)
        for parameter, group, saved in self._saved_states(state_dict):
            for key, value in saved.items():
                if isinstance(value, Tensor):
                    self.state[parameter][key] = self._adopt(key, value, parameter, group)
        self._rates.clear()
        self._counters.clear()
        self._written.clear()
        self._skipped_before = state_dict.get("stiefel", {}).get("skipped_steps", 0)

    def _saved_states(self, state_dict: Dict[str, Any]) -> List[Tuple[Tensor, Group, State]]:
        """Each parameter that has a saved state, with its group's saved options and that state."""
        result = []
        for group, saved_group in zip(self.param_groups, state_dict["param_groups"]):
            for parameter, key in zip(group["params"], saved_group["params"]):
                if key in state_dict["state"]:
                    result.append((parameter, saved_group, state_dict["state"][key]))
        return result

    def _check_state(self, state_dict: Dict[str, Any]) -> None:
        """Everything is checked first, so that a bad state changes nothing."""
        if not isinstance(state_dict, dict) or not isinstance(state_dict.get("stiefel", {}), dict):
            raise ValueError("stiefel: the state is no dictionary of an optimizer; load what state_dict() returned")
        for key, kind in (("state", dict), ("param_groups", list)):
            if not isinstance(state_dict.get(key), kind):
                raise ValueError(
                    f"stiefel: the state has no {key!r} that is a {kind.__name__}: it is damaged; load another copy"
                )
        skipped = state_dict.get("stiefel", {}).get("skipped_steps", 0)
        if not isinstance(skipped, int) or skipped < 0:
            raise ValueError(f"stiefel: the state's skipped_steps is {skipped!r}, not a count: it is damaged")
        for group in state_dict["param_groups"]:
            if not isinstance(group, dict) or not isinstance(group.get("params"), list):
                raise ValueError("stiefel: a saved parameter group has no list 'params': it is damaged")
        saved_by = state_dict.get("stiefel", {}).get("optimizer", type(self).__name__)
        if saved_by != type(self).__name__:
            raise ValueError(
                f"stiefel: the state is of {saved_by}, not of {type(self).__name__}; load it with"
                " the optimizer that saved it"
            )
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
                expected = parameter.shape
                if key in _PER_MATRIX:
                    stacked = group.get("batched", False) and self._is_on_manifold(group, parameter)
                    expected = parameter.shape[:-2] if stacked else torch.Size()
                if value.shape != expected:
                    raise ValueError(
                        f"stiefel: the saved {key!r} of a parameter of shape {tuple(parameter.shape)} has the"
                        f" shape {tuple(value.shape)} instead of {tuple(expected)}"
                    )

    def _adopt(self, key: str, value: Tensor, parameter: Tensor, group: Group) -> Tensor:
        """A loaded tensor where a step expects it: numbers on the parameter's device (Euclidean step counts
        on the CPU, as torch.optim has them), the others in the parameter's own layout."""
        if key in _PER_MATRIX:
            on_device = self._is_on_manifold(group, parameter) or group.get("capturable", False)
            return value.detach().clone().to(parameter.device if on_device else "cpu")
        return torch.empty_like(parameter, dtype=value.dtype, requires_grad=False).copy_(value)

    def __getstate__(self) -> Dict[str, Any]:
        return {**super().__getstate__(), "_skipped_before": self._total_skipped()}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        if "_rates" not in self.__dict__:  # a copy, or unpickled; load_state_dict calls this too
            self._init_private()
        super().__setstate__(state)


def _batch_of(batches: Dict[Any, Batch], key: Any) -> Batch:
    batch = batches.get(key)
    if batch is None:
        batch = batches[key] = Batch()
    return batch


def _check_type(parameter: Tensor) -> None:
    if hasattr(parameter, "device_mesh"):
        raise TypeError(
            f"stiefel: a parameter of shape {tuple(parameter.shape)} is a DTensor, whose shards cannot be"
            " stepped one by one; keep parameters on the manifold whole, on every rank"
        )
    if parameter.layout != torch.strided:
        raise TypeError(f"stiefel: a parameter on the manifold must be dense; got {parameter.layout}")
    if not (parameter.is_floating_point() or parameter.is_complex()):
        raise TypeError(
            "stiefel: a parameter on the manifold must be floating-point or complex; got "
            f"{parameter.dtype} {tuple(parameter.shape)}"
        )
    if parameter.dim() < 2 or parameter.numel() == 0:
        raise ValueError(
            "stiefel: a parameter on the manifold needs two or more dimensions and elements; got the shape "
            f"{tuple(parameter.shape)}; put it in a group with manifold='euclidean'"
        )
