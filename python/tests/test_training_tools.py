"""What torch has around an optimizer: loss scaling, schedules, averages, hooks, files."""
import copy
import io
import pickle

import pytest
import stiefel
import torch
from support import give_gradient, optimizers, point, torch_release

OURS = [name for name in optimizers() if name != "SGDG"]


def network(seed=0):
    """Layers with weights on the manifold, in double, and the groups of an optimizer."""
    torch.manual_seed(seed)
    net = torch.nn.Sequential(torch.nn.Linear(9, 6), torch.nn.Tanh(), torch.nn.Linear(6, 6), torch.nn.Tanh())
    net.append(torch.nn.Linear(6, 3))
    net.double()
    split = stiefel.split_parameters(net)
    for weight in split.manifold:
        stiefel.init.haar_(weight)
    euclidean = {"params": split.euclidean, "manifold": "euclidean", "lr": 0.0625}
    return net, [{"params": split.manifold}, euclidean]


def batch(seed):
    generator = torch.Generator().manual_seed(100 + seed)
    x = torch.randn(16, 9, generator=generator, dtype=torch.float64)
    return x, torch.randint(3, (16,), generator=generator)


def loss_of(net, seed):
    x, y = batch(seed)
    return torch.nn.functional.cross_entropy(net(x), y)


def train(net, optimizer, first, last, after=lambda: None):
    for i in range(first, last):
        optimizer.zero_grad()
        loss_of(net, i).backward()
        optimizer.step()
        after()


def weights(net):
    return [p.detach().clone() for p in net.parameters()]


def assert_equal(a, b):
    assert len(a) == len(b)
    for left, right in zip(a, b):
        assert torch.equal(left, right)


# Loss scaling.


def scaler(**options):
    if not hasattr(torch, "amp") or not hasattr(torch.amp, "GradScaler"):
        pytest.skip(f"torch.amp.GradScaler, for the CPU too, is in torch 2.3; this is {torch.__version__}")
    return torch.amp.GradScaler("cpu", **options)


@pytest.mark.parametrize("name", OURS)
def test_a_scaled_loss_trains_as_an_unscaled_one(name):
    scale = scaler(init_scale=2.0**10, growth_interval=3)
    (net, groups), (peer, peer_groups) = network(), network()
    optimizer, reference = optimizers()[name](groups), optimizers()[name](peer_groups)
    for i in range(8):
        optimizer.zero_grad()
        scale.scale(loss_of(net, i)).backward()
        scale.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1e6)
        scale.step(optimizer)
        scale.update()
        train(peer, reference, i, i + 1)
    assert scale.get_scale() == 2.0**12  # it grew twice
    assert_equal(weights(net), weights(peer))  # powers of two scale without rounding


@pytest.mark.parametrize("name", OURS)
def test_the_scaler_leaves_out_a_step_with_an_infinite_gradient(name):
    scale = scaler(init_scale=2.0**10)
    net, groups = network()
    optimizer = optimizers()[name](groups)
    train(net, optimizer, 0, 2)
    before, state = weights(net), copy.deepcopy(optimizer.state_dict())
    optimizer.zero_grad()
    scale.scale(loss_of(net, 2)).backward()
    net[0].weight.grad[0, 0] = float("inf")
    scale.step(optimizer)
    scale.update()
    assert scale.get_scale() == 2.0**9 and optimizer.skipped_steps() == 0
    assert_equal(weights(net), before)
    after = optimizer.state_dict()
    for key, saved in state["state"].items():
        assert all(torch.equal(value, after["state"][key][name]) for name, value in saved.items())


@pytest.mark.parametrize("name", OURS)
def test_without_a_scaler_the_matrix_with_the_bad_gradient_stays_alone(name):
    net, groups = network()
    optimizer = optimizers()[name](groups)
    train(net, optimizer, 0, 2)
    before = weights(net)
    optimizer.zero_grad()
    loss_of(net, 2).backward()
    net[0].weight.grad[0, 0] = float("inf")
    optimizer.step()
    assert [torch.equal(a, b) for a, b in zip(weights(net), before)] == [True] + [False] * 5
    assert optimizer.skipped_steps() == 1


# Schedules.

SCHEDULES = {
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5),
    "exponential": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.75),
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 6),
    "warm restarts": lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "warm-up, then polynomial": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o,
        [
            torch.optim.lr_scheduler.LinearLR(o, 0.25, total_iters=3),
            torch.optim.lr_scheduler.PolynomialLR(o, 4),
        ],
        [3],
    ),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(
        o, 0.2, total_steps=8, cycle_momentum=False
    ),
}


class ByHand:
    """The rates of a scheduled torch.optim.SGD with the same groups, as numbers."""

    def __init__(self, schedule, groups, kind=float):
        dummies = [
            {"params": [torch.nn.Parameter(torch.zeros(1))], "lr": kind(group["lr"])} for group in groups
        ]
        self.optimizer = torch.optim.SGD(dummies, lr=1.0, momentum=0.9)
        self.scheduler = schedule(self.optimizer)

    def rates(self):
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def advance(self):
        self.optimizer.step()
        self.scheduler.step()


def as_tensor(rate):
    return torch.tensor(rate, dtype=torch.float64)


@pytest.mark.filterwarnings("ignore:The epoch parameter in")  # SequentialLR's own
@pytest.mark.parametrize("tensors", [False, True])
@pytest.mark.parametrize("kind", SCHEDULES)
@pytest.mark.parametrize("name", OURS)
def test_a_schedule_sets_the_rates_of_all_groups(name, kind, tensors):
    if tensors and torch_release() < (2, 2):
        pytest.skip(f"schedulers take a tensor rate from torch 2.2 on; this is {torch.__version__}")
    (net, groups), (peer, peer_groups) = network(), network()
    optimizer, reference = optimizers()[name](groups), optimizers()[name](peer_groups)
    by_hand = ByHand(SCHEDULES[kind], reference.param_groups, as_tensor if tensors else float)
    if tensors:
        for group in optimizer.param_groups:
            group["lr"] = as_tensor(group["lr"])
    scheduler = SCHEDULES[kind](optimizer)
    seen = set()
    for i in range(7):
        for group, rate in zip(reference.param_groups, by_hand.rates()):
            group["lr"] = rate
        seen.add(by_hand.rates()[0])
        train(net, optimizer, i, i + 1, scheduler.step)
        train(peer, reference, i, i + 1)
        by_hand.advance()
    assert len(seen) > 2
    assert all(isinstance(group["lr"], torch.Tensor) == tensors for group in optimizer.param_groups)
    for a, b in zip(weights(net), weights(peer)):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-14)  # torch rounds differently with tensors


@pytest.mark.parametrize("name", OURS)
def test_a_capturable_optimizer_takes_a_tensor_rate_on_the_cpu(name):
    (net, groups), (peer, peer_groups) = network(), network()
    which = {"retraction": "qr"} if name == "RetractionSGD" else {}
    optimizer = optimizers()[name](groups, capturable=True, **which)
    reference = optimizers()[name](peer_groups, **which)
    for group in optimizer.param_groups:
        group["lr"] = as_tensor(group["lr"])
    train(net, optimizer, 0, 4)
    train(peer, reference, 0, 4)
    for a, b in zip(weights(net), weights(peer)):
        assert torch.allclose(a, b, rtol=1e-12, atol=1e-14)


def test_a_plateau_lowers_the_rates():
    net, groups = network()
    optimizer = stiefel.CayleySGD(groups, lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    for _ in range(3):
        scheduler.step(1.0)
    assert [group["lr"] for group in optimizer.param_groups] == [0.025, 0.015625]


# Averages.


@pytest.mark.parametrize("name", OURS)
def test_averaged_models_are_means_and_leave_training_alone(name):
    (net, groups), (peer, peer_groups) = network(), network()
    optimizer, reference = optimizers()[name](groups), optimizers()[name](peer_groups)
    averaged = torch.optim.swa_utils.AveragedModel(net)
    schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=2)
    other = torch.optim.swa_utils.SWALR(reference, swa_lr=0.05, anneal_epochs=2)
    path = []

    def after():
        averaged.update_parameters(net)
        path.append(weights(net))
        schedule.step()

    train(net, optimizer, 0, 6, after)
    train(peer, reference, 0, 6, other.step)
    assert_equal(weights(net), weights(peer))
    for k, parameter in enumerate(averaged.module.parameters()):
        mean = torch.stack([each[k] for each in path]).mean(0)
        assert torch.allclose(parameter, mean, rtol=0, atol=1e-12)
    # A mean of orthonormal matrices is not orthonormal; the nearest one is a step away.
    split = stiefel.split_parameters(averaged.module)
    assert all(stiefel.defect(weight).item() > 1e-6 for weight in split.manifold)
    for weight in split.manifold:
        stiefel.orthonormalize_(weight)
        assert stiefel.defect(weight).item() < 1e-12


# Files.


@pytest.mark.skipif(
    torch_release() < (2, 0), reason=f"weights_only of torch {torch.__version__} loads no floats"
)
@pytest.mark.parametrize("tensor_rate", [False, True])
@pytest.mark.parametrize("name", optimizers())
def test_a_state_loads_with_weights_only(name, tensor_rate):
    free = {"stiefel": False} if name == "SGDG" else {"manifold": "euclidean"}

    def build(start):
        manifold = torch.nn.Parameter(start[0].clone())
        half, vector = torch.nn.Parameter(start[1].clone()), torch.nn.Parameter(start[2].clone())
        rate = torch.tensor(0.1, dtype=torch.float64) if tensor_rate else 0.1
        groups = [{"params": [manifold, half], "lr": rate}, {"params": [vector], **free}]
        return [manifold, half, vector], optimizers()[name](groups)

    def advance(parameters, optimizer, first, last):
        for i in range(first, last):
            give_gradient(parameters, seed=i)
            optimizer.step()

    start = [point(4, 6).detach(), point(5, 7, dtype=torch.float32).detach().bfloat16(), torch.ones(3)]
    parameters, optimizer = build(start)
    advance(parameters, optimizer, 0, 3)
    file = io.BytesIO()
    torch.save({"state": optimizer.state_dict(), "values": [p.detach() for p in parameters]}, file)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    resumed, second = build(saved["values"])
    second.load_state_dict(saved["state"])
    advance(parameters, optimizer, 3, 6)
    advance(resumed, second, 3, 6)
    assert_equal([p.detach() for p in parameters], [p.detach() for p in resumed])


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
@pytest.mark.parametrize("name", OURS)
def test_copies_and_pickles_go_on_alike(name, copied):
    net, groups = network()
    optimizer = optimizers()[name](groups)
    train(net, optimizer, 0, 3)
    net2, optimizer2 = copied((net, optimizer))
    train(net, optimizer, 3, 6)
    train(net2, optimizer2, 3, 6)
    assert_equal(weights(net), weights(net2))
    assert optimizer2.param_groups[0]["params"][0] is net2[0].weight


# Hooks.


def needs(owner, name, since):
    return pytest.mark.skipif(
        not hasattr(owner, name), reason=f"{name} is in torch {since} and later; this is {torch.__version__}"
    )


@needs(torch.Tensor, "register_post_accumulate_grad_hook", "2.1")
@pytest.mark.parametrize("name", OURS)
def test_a_step_in_the_backward_pass_equals_one_after_it(name):
    (net, groups), (peer, peer_groups) = network(), network()
    for group in groups:
        for parameter in group.pop("params"):
            own = optimizers()[name]([{"params": [parameter], **group}])

            def step(parameter, own=own):
                own.step()
                own.zero_grad()

            parameter.register_post_accumulate_grad_hook(step)
    for i in range(5):
        loss_of(net, i).backward()
    train(peer, optimizers()[name](peer_groups), 0, 5)
    assert_equal(weights(net), weights(peer))
    assert all(parameter.grad is None for parameter in net.parameters())


@needs(torch.optim.Optimizer, "register_step_post_hook", "2.0")
@pytest.mark.parametrize("name", OURS)
def test_step_hooks_are_called(name):
    weight = point(4, 6)
    optimizer = optimizers()[name]([weight])
    calls = []
    optimizer.register_step_pre_hook(lambda *_: calls.append(("before", weight.detach().clone())))
    handle = optimizer.register_step_post_hook(lambda *_: calls.append(("after", weight.detach().clone())))
    for i in range(2):
        give_gradient([weight], seed=i)
        optimizer.step()
    handle.remove()
    optimizer.step()
    assert [when for when, _ in calls] == ["before", "after"] * 2 + ["before"]
    assert not torch.equal(calls[0][1], calls[1][1]) and torch.equal(calls[1][1], calls[2][1])


@needs(torch.optim.Optimizer, "register_load_state_dict_pre_hook", "2.1")
def test_hooks_see_and_change_states():
    weight = torch.nn.Parameter(point(4, 6, dtype=torch.float32).detach().bfloat16())
    optimizer = stiefel.CayleySGD([weight], lr=0.1, momentum=0.9)
    give_gradient([weight], seed=0)
    optimizer.step()
    saved = optimizer.state_dict()
    loaded = []

    def halve(_, state):
        state = copy.deepcopy(state)
        state["state"][0]["momentum_buffer"] /= 2
        return state

    optimizer.register_load_state_dict_pre_hook(halve)
    optimizer.register_load_state_dict_post_hook(lambda o: loaded.append(dict(o.state[weight])))
    half = saved["state"][0]["momentum_buffer"] / 2
    optimizer.load_state_dict(saved)
    (seen,) = loaded  # the state as it is used: torch by itself makes all of it bfloat16
    assert seen["master"].dtype == torch.float32 and torch.equal(seen["momentum_buffer"], half)
    assert torch.equal(optimizer.state[weight]["momentum_buffer"], half)
