"""States, groups, schedulers: what torch.optim's users rely on."""
import copy
import io

import pytest
import stiefel
import torch
from support import give_gradient, optimizers, point


def network():
    generator = torch.Generator().manual_seed(1)
    manifold = [
        point(5, 9, dtype=torch.float32, seed=1),
        point(9, 5, seed=2),
        point(4, 4, dtype=torch.complex64, seed=3),
        torch.nn.Parameter(point(6, 8, dtype=torch.float32, seed=4).detach().bfloat16()),
    ]
    stack = [point(3, 4, 6, batched=True, seed=5)]
    free = [
        torch.nn.Parameter(torch.randn(7, generator=generator)),
        torch.nn.Parameter(torch.randn(3, 2, generator=generator)),
    ]
    return manifold, stack, free


def make(name, parameters):
    manifold, stack, free = parameters
    euclidean = {"params": free, "lr": 0.05, "weight_decay": 0.01}
    euclidean.update({"stiefel": False} if name == "SGDG" else {"manifold": "euclidean"})
    groups = [{"params": manifold}, {"params": stack, "batched": True, "lr": 0.02}, euclidean]
    if name == "SGDG":  # the released optimizer knows no stacks
        groups[1] = {"params": stack, "stiefel": False}
    return optimizers()[name](groups)


def train(optimizer, parameters, first, last, scheduler=None):
    everything = [p for group in parameters for p in group]
    for i in range(first, last):
        give_gradient(everything, seed=i)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()


def values(parameters):
    return [p.detach().clone() for group in parameters for p in group]


@pytest.mark.parametrize("name", optimizers())
def test_resuming_equals_not_stopping(name):
    parameters = network()
    optimizer = make(name, parameters)
    train(optimizer, parameters, 0, 3)
    file = io.BytesIO()
    torch.save({"values": values(parameters), "optimizer": optimizer.state_dict()}, file)
    train(optimizer, parameters, 3, 6)

    file.seek(0)
    saved = torch.load(file)
    resumed = network()
    with torch.no_grad():
        for p, value in zip([p for group in resumed for p in group], saved["values"]):
            p.copy_(value)
    second = make(name, resumed)
    second.load_state_dict(saved["optimizer"])
    train(second, resumed, 3, 6)
    for a, b in zip(values(parameters), values(resumed)):
        assert torch.equal(a, b)
    states = [s for s in second.state.values()]
    assert all(
        torch.equal(a[k], b[k]) and a[k].dtype == b[k].dtype
        for a, b in zip(optimizer.state.values(), states)
        for k in a
        if isinstance(a[k], torch.Tensor)
    )


def test_types_of_the_state_survive_loading():
    weight = torch.nn.Parameter(point(6, 8, dtype=torch.float32).detach().bfloat16())
    optimizer = stiefel.CayleyAdam([weight], lr=0.1)
    give_gradient([weight], seed=0)
    optimizer.step()
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    state = optimizer.state[weight]
    assert state["master"].dtype == state["exp_avg"].dtype == torch.float32
    assert state["second_moment"].dtype == state["step"].dtype == torch.float64
    assert torch.equal(state["master"].bfloat16(), weight.detach())


@pytest.mark.parametrize("name", optimizers())
def test_a_copy_goes_on_alike(name):
    parameters = network()
    optimizer = make(name, parameters)
    train(optimizer, parameters, 0, 2)
    parameters2, optimizer2 = copy.deepcopy((parameters, optimizer))
    train(optimizer, parameters, 2, 4)
    train(optimizer2, parameters2, 2, 4)
    for a, b in zip(values(parameters), values(parameters2)):
        assert torch.equal(a, b)
    optimizer2.add_param_group({"params": [point(3, 5)]})
    assert optimizer2.param_groups[-1]["lr"] == 0.1


def test_copies_and_loaded_states_keep_the_count_of_skipped_steps():
    weight = point(4, 6)
    optimizer = stiefel.CayleySGD([weight], lr=0.1)
    weight.grad = torch.full_like(weight, float("nan"))
    optimizer.step()
    loaded = stiefel.CayleySGD([weight], lr=0.1)
    loaded.load_state_dict(optimizer.state_dict())
    for other in (optimizer, loaded, copy.deepcopy(optimizer)):
        assert other.skipped_steps() == 1
    loaded.step()
    assert loaded.skipped_steps() == 2


def test_refresh_rates_writes_a_changed_rate():
    weight = point(4, 6)
    optimizer = stiefel.CayleySGD([weight], lr=0.1)
    give_gradient([weight], seed=0)
    optimizer.step()
    (rate,) = optimizer._rates.values()
    optimizer.param_groups[0]["lr"] = 0.025
    assert rate.tensor.item() == 0.1
    optimizer.refresh_rates()
    assert rate.tensor.item() == 0.025


def test_a_rate_that_is_a_tensor():
    weights = [point(4, 6), point(4, 6)]
    rate = torch.tensor(0.1, dtype=torch.float64)
    optimizers_ = [stiefel.CayleySGD(weights[:1], lr=rate), stiefel.CayleySGD(weights[1:], lr=0.1)]
    for i, lr in enumerate((0.1, 0.02)):
        rate.fill_(lr)
        optimizers_[1].param_groups[0]["lr"] = lr
        for weight, optimizer in zip(weights, optimizers_):
            give_gradient([weight], seed=i)
            optimizer.step()
    assert torch.equal(*weights)


def test_a_scheduler_sets_the_rate_of_every_group():
    scheduled, by_hand = network(), network()
    optimizer, other = make("CayleySGD", scheduled), make("CayleySGD", by_hand)
    train(optimizer, scheduled, 0, 4, torch.optim.lr_scheduler.MultiStepLR(optimizer, [2], gamma=0.1))
    train(other, by_hand, 0, 2)
    for group in other.param_groups:
        group["lr"] *= 0.1
    train(other, by_hand, 2, 4)
    for a, b in zip(values(scheduled), values(by_hand)):
        assert torch.equal(a, b)
    assert [round(g["lr"], 9) for g in optimizer.param_groups] == [0.01, 0.002, 0.005]


def test_one_cycle_and_cosine_schedules_run():
    weight = point(4, 6)
    optimizer = stiefel.CayleySGD([weight], lr=0.1, momentum=0.9)
    schedules = [
        torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5),
        torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10),
    ]
    for scheduler in schedules:
        for i in range(4):
            give_gradient([weight], seed=i)
            optimizer.step()
            scheduler.step()
    assert stiefel.defect(weight).item() < 1e-12


@pytest.mark.parametrize(
    "name,peer,options",
    [
        ("CayleyMuon", torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        ("CayleySGD", torch.optim.SGD, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1}),
        ("CayleySGD", torch.optim.SGD, {"momentum": 0.9, "dampening": 0.5}),
        ("RetractionSGD", torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
        ("CayleyAdam", torch.optim.Adam, {"betas": (0.8, 0.9), "weight_decay": 0.1}),
        (
            "CayleyAdam",
            torch.optim.AdamW,
            {"betas": (0.8, 0.9), "weight_decay": 0.1, "decoupled_weight_decay": True},
        ),
    ],
)
def test_euclidean_groups_step_as_torch_does(name, peer, options):
    ours = [torch.nn.Parameter(torch.randn(5, 3)), torch.nn.Parameter(torch.randn(4, dtype=torch.complex64))]
    theirs = [torch.nn.Parameter(p.detach().clone()) for p in ours]
    optimizer = getattr(stiefel, name)([{"params": ours, "manifold": "euclidean", **options}], lr=0.1)
    reference = peer(theirs, lr=0.1, **{k: v for k, v in options.items() if k != "decoupled_weight_decay"})
    for i in range(4):
        give_gradient(ours, seed=i)
        give_gradient(theirs, seed=i)
        optimizer.step()
        reference.step()
    for a, b in zip(ours, theirs):
        assert torch.equal(a, b)


def test_euclidean_defaults_stay_off_the_manifold():
    weight, bias = point(4, 6), torch.nn.Parameter(torch.ones(3))
    optimizer = stiefel.CayleySGD(
        [{"params": [weight]}, {"params": [bias], "manifold": "euclidean"}],
        lr=0.1,
        momentum=0.9,
        weight_decay=0.1,
        nesterov=True,
    )
    assert [(g["weight_decay"], g["nesterov"]) for g in optimizer.param_groups] == [(0, False), (0.1, True)]


def test_groups_added_later():
    first, second = point(4, 6), point(5, 5, seed=1)
    optimizer = stiefel.CayleySGD([first], lr=0.1)
    optimizer.add_param_group({"params": [second], "lr": 0.3})
    before = second.detach().clone()
    give_gradient([second], seed=0)
    optimizer.step()
    assert not torch.equal(second, before) and stiefel.defect(second).item() < 1e-12
    far = torch.nn.Parameter(torch.randn(3, 5))
    with pytest.warns(UserWarning, match=r"1 of 1 parameters were not orthonormal .*\(3, 5\)"):
        optimizer.add_param_group({"params": [far]})
    assert stiefel.defect(far).item() < 1e-5
    # A group that is refused is not there afterwards.
    with pytest.raises(RuntimeError, match="rank-deficient"):
        optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(3, 5))]})
    assert len(optimizer.param_groups) == 3


def test_a_closure_is_called_with_gradients():
    weight = point(4, 6)
    optimizer = stiefel.CayleySGD([weight], lr=0.1)
    target = point(4, 6, seed=9).detach()

    def closure():
        optimizer.zero_grad(set_to_none=True)
        loss = (weight - target).square().sum()
        loss.backward()
        return loss

    losses = [optimizer.step(closure).item() for _ in range(50)]
    assert losses[-1] < 0.5 * losses[0]


def test_zero_grad_and_parameters_without_a_gradient():
    a, b = point(4, 6), point(4, 6, seed=1)
    optimizer = stiefel.CayleySGD([a, b], lr=0.1)
    before = b.detach().clone()
    give_gradient([a], seed=0)
    optimizer.step()
    assert torch.equal(b, before)
    optimizer.zero_grad(set_to_none=True)
    assert a.grad is None


def test_states_that_do_not_fit_are_refused_and_change_nothing():
    weight = point(4, 6)
    optimizer = stiefel.CayleySGD([weight], lr=0.1)
    give_gradient([weight], seed=0)
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    with pytest.raises(ValueError, match="of CayleySGD, not of CayleyAdam"):
        stiefel.CayleyAdam([weight], lr=0.1).load_state_dict(state)
    other = point(5, 6)
    second = stiefel.CayleySGD([other], lr=0.3)
    with pytest.raises(
        ValueError, match=r"'momentum_buffer' of a parameter of shape \(5, 6\) has the shape \(4, 6\)"
    ):
        second.load_state_dict(state)
    assert second.param_groups[0]["lr"] == 0.3 and not second.state


def peers(parameters):
    """Optimizers of torch, each of which has taken a step."""
    for kind in (torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop):
        other = kind(parameters, lr=0.1)
        give_gradient(parameters, seed=0)
        other.step()
        yield other
    yield torch.optim.Adadelta(parameters)


@pytest.mark.parametrize("name", optimizers())
def test_states_of_torchs_optimizers_are_refused_and_change_nothing(name):
    weight, spare = point(4, 6), torch.nn.Parameter(torch.ones(4, 6, dtype=torch.float64))
    optimizer = optimizers()[name]([weight])
    give_gradient([weight], seed=0)
    optimizer.step()
    before = copy.deepcopy(optimizer.state_dict())
    twin = point(4, 6)
    reference = optimizers()[name]([twin])
    give_gradient([twin], seed=0)
    reference.step()
    for other in peers([spare]):
        kind = type(other).__name__
        named = "another optimizer" if kind == "Adadelta" else f"torch.optim.*{kind}"
        with pytest.raises(ValueError, match=f"the state is of {named}.*, not of {name}; load it with"):
            optimizer.load_state_dict(other.state_dict())
    after = optimizer.state_dict()
    assert after["param_groups"] == before["param_groups"] and after["stiefel"] == before["stiefel"]
    for each in ((weight, optimizer), (twin, reference)):
        give_gradient(each[:1], seed=1)
        each[1].step()
    assert torch.equal(weight, twin)


@pytest.mark.parametrize("bad", [{}, {"state": {}}, {"model": {}, "optimizer": {}}])
def test_what_is_no_state_is_refused(bad):
    optimizer = stiefel.CayleySGD([point(4, 6)], lr=0.1)
    with pytest.raises(ValueError, match="'state' and 'param_groups'; it has .*state_dict()"):
        optimizer.load_state_dict(bad)
    optimizer.step()


@pytest.mark.parametrize("name", optimizers())
def test_states_and_pickles_without_a_later_option_still_load(name):
    parameters, expected = network(), network()
    optimizer, reference = make(name, parameters), make(name, expected)
    train(optimizer, parameters, 0, 2)
    train(reference, expected, 0, 4)
    later = ["capturable", "orthonormalize_on_start"]
    state = copy.deepcopy(optimizer.state_dict())
    for group in state["param_groups"]:
        for option in later:
            del group[option]
    resumed = copy.deepcopy(parameters)
    second = make(name, resumed)
    second.load_state_dict(state)
    assert all(not group["capturable"] for group in second.param_groups)
    train(second, resumed, 2, 4)

    old = copy.deepcopy((parameters, optimizer))
    pickled = old[1].__getstate__()
    for options in (pickled["defaults"], *pickled["param_groups"]):
        for option in later:
            del options[option]
    third = object.__new__(type(optimizer))
    third.__setstate__(pickled)
    train(third, old[0], 2, 4)
    for a, b, c in zip(values(expected), values(resumed), values(old[0])):
        assert torch.equal(a, b) and torch.equal(a, c)


def test_a_bad_option_of_a_state_changes_nothing():
    weight = point(4, 6)
    optimizer = stiefel.CayleySGD([weight], lr=0.1)
    state = copy.deepcopy(optimizer.state_dict())
    state["param_groups"][0].update(lr=0.2, momentum=3.0)
    with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\); got 3.0"):
        optimizer.load_state_dict(state)
    assert optimizer.param_groups[0]["lr"] == 0.1
    give_gradient([weight], seed=0)
    optimizer.step()


class SignSGD(stiefel.ManifoldOptimizer):
    """An optimizer of a user: along the sign of the gradient by the polar retraction."""

    def __init__(self, params, lr):
        super().__init__(params, dict(lr=lr, weight_decay=0.0))

    def _init_manifold_state(self, group, state, point):
        state.setdefault("taken", torch.zeros_like(point))

    def _step_manifold(self, group, batch, rate, counters):
        signs = [gradient.sign() for gradient in batch.gradients]
        torch.ops.stiefel.retraction_sgd_(
            batch.points, [], signs, counters.skipped, rate, off_manifold=counters.off_manifold
        )
        for state in batch.states:
            state["taken"] += 1

    def _step_euclidean(self, group, batch, lr):
        for parameter, gradient in zip(batch.points, batch.gradients):
            parameter.add_(gradient.sign(), alpha=-lr)


def test_an_optimizer_of_ones_own():
    weight, half, free = (
        point(4, 6),
        torch.nn.Parameter(point(4, 6).detach().half()),
        torch.nn.Parameter(torch.ones(3)),
    )
    optimizer = SignSGD([{"params": [weight, half]}, {"params": [free], "manifold": "euclidean"}], lr=0.1)
    for i in range(3):
        give_gradient([weight, half, free], seed=i)
        optimizer.step()
    assert stiefel.defect(weight).item() < 1e-12 and optimizer.state[weight]["taken"][0, 0] == 3
    assert optimizer.state[half]["master"].dtype == torch.float32
    with pytest.raises(ValueError, match="weight_decay is 0.1"):
        optimizer.add_param_group({"params": [point(3, 5)], "weight_decay": 0.1})


def test_repr_names_the_options():
    text = repr(stiefel.CayleySGD([point(4, 6)], lr=0.1))
    assert "CayleySGD" in text and "manifold: stiefel" in text and "lr: 0.1" in text
