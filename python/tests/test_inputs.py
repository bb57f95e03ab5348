"""Bad input: errors name the value, the cause and the remedy."""
import warnings

import pytest
import stiefel
import torch
from support import give_gradient, optimizers, point, torch_release


@pytest.mark.parametrize(
    "options,message",
    [
        ({"lr": -1}, "lr must be finite and not negative; got -1"),
        ({"lr": float("nan")}, "lr must be finite and not negative; got nan"),
        ({"momentum": 1.0}, r"momentum must lie in \[0, 1\); got 1.0"),
        ({"weight_decay": 0.1}, "weight_decay is 0.1 on a group of orthonormal matrices"),
        ({"nesterov": True, "momentum": 0.9}, "nesterov is True on a group of orthonormal matrices"),
        ({"dampening": 0.5}, "dampening is 0.5 on a group of orthonormal matrices"),
        ({"manifold": "sphere"}, "no manifold is called 'sphere'"),
        ({"q": 1.5}, r"q must lie in \(0, 1\)"),
        ({"iterations": -1}, "iterations must lie in"),
        ({"norm": "two"}, "two"),
        ({"precision": "low"}, "low"),
    ],
)
def test_options_of_cayley_sgd(options, message):
    with pytest.raises(ValueError, match=message):
        stiefel.CayleySGD([point(4, 6)], **{"lr": 0.1, **options})


def test_options_of_the_others():
    with pytest.raises(ValueError, match="first of betas .* got 1.0"):
        stiefel.CayleyAdam([point(4, 6)], lr=0.1, betas=(1.0, 0.9))
    with pytest.raises(ValueError, match="no retraction is called 'svd'; it is polar, polar-ns"):
        stiefel.RetractionSGD([point(4, 6)], 0.1, "svd")
    with pytest.raises(ValueError, match="1 round or more; got 0"):
        stiefel.RetractionSGD([point(4, 6)], 0.1, "polar-ns", rounds=0)
    with pytest.raises(ValueError, match="rounds"):
        stiefel.CayleyMuon([point(4, 6)], rounds=9)
    with pytest.raises(ValueError, match="dampening is 0.5 on a group of orthonormal matrices"):
        stiefel.CayleyMuon([point(4, 6)], dampening=0.5)
    with pytest.raises(ValueError, match="needs lr"):
        stiefel.compat.SGDG([point(4, 6)])
    with pytest.raises(TypeError):
        stiefel.CayleySGD(point(4, 6), lr=0.1)
    with pytest.raises(ValueError, match="empty"):
        stiefel.CayleySGD([], lr=0.1)


@pytest.mark.parametrize("name", optimizers())
def test_a_misspelt_option_of_a_group_is_refused(name):
    with pytest.raises(
        ValueError, match=f"{name} has no option 'manifald' for a parameter group; did you mean 'manifold'"
    ):
        optimizers()[name]([{"params": [point(4, 6)], "manifald": "euclidean"}])
    with pytest.raises(ValueError, match="no option 'xyz' .*the options are .*lr, .*param_groups afterwards"):
        optimizers()[name]([{"params": [point(4, 6)], "xyz": 1}])


def test_entries_of_torch_and_of_ones_own_are_no_misspelt_options():
    known = {"name": "first", "initial_lr": 0.1, "param_names": ["w"], "foreach": None, "fused": None}
    optimizer = stiefel.CayleySGD([{"params": [point(4, 6)], "maximize": False, **known}], lr=0.1)
    optimizer.param_groups[0]["lr_scale"] = 0.5
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.param_groups[0]["lr_scale"] == 0.5
    with pytest.raises(ValueError, match="no option 'maximize'"):
        stiefel.CayleySGD([{"params": [point(4, 6)], "maximize": True}], lr=0.1)
    # Groups that a scheduler has written to make another optimizer.
    torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=5)
    del optimizer.param_groups[0]["lr_scale"]
    stiefel.CayleySGD(optimizer.param_groups, lr=0.1)


def test_a_parameter_twice_in_a_group_is_refused():
    weight = point(4, 6)
    with pytest.raises(ValueError, match=r"shape \(4, 6\) is listed twice in a group; list each once"):
        stiefel.CayleySGD([weight, point(3, 5), weight], lr=0.1)
    with pytest.raises(ValueError, match="more than one parameter group"):
        stiefel.CayleySGD([{"params": [weight]}, {"params": [weight]}], lr=0.1)


def test_errors_have_pythons_names():
    with pytest.raises(RuntimeError, match=r"rank-deficient.*for example with stiefel.init.haar_"):
        stiefel.orthonormalize_(torch.zeros(3, 5))


def test_parameters_that_cannot_be_on_the_manifold():
    with pytest.raises(
        ValueError, match=r"two or more dimensions .* \(3,\); put it in a group with manifold='euclidean'"
    ):
        stiefel.CayleySGD([torch.nn.Parameter(torch.ones(3))], lr=0.1)
    with pytest.raises(RuntimeError, match="rank-deficient"):
        stiefel.CayleySGD([torch.nn.Parameter(torch.zeros(3, 5))], lr=0.1)
    with pytest.raises(TypeError, match="floating-point or complex"):
        stiefel.CayleySGD([torch.ones(3, 5, dtype=torch.int64)], lr=0.1)
    sharded = point(4, 6)
    sharded.device_mesh = "what a DTensor has"
    if torch_release() < (2, 6):
        with pytest.raises(TypeError, match=r"\(4, 6\) is a DTensor, .* from torch 2.6 on; this is"):
            stiefel.CayleySGD([sharded], lr=0.1)


def test_a_start_off_the_manifold():
    near = torch.nn.Parameter(point(4, 6).detach() * (1 + 1e-5))
    before = near.detach().clone()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        stiefel.CayleySGD([near], lr=0.1)
    assert torch.equal(near, before)
    far = torch.nn.Parameter(torch.randn(4, 6, generator=torch.Generator().manual_seed(2)))
    with pytest.raises(ValueError, match=r"\(4, 6\) is off the manifold by .* orthonormalize_"):
        stiefel.CayleySGD([far], lr=0.1, orthonormalize_on_start=False)
    with pytest.warns(UserWarning, match="1 of 2 parameters were not orthonormal"):
        stiefel.CayleySGD([near, far], lr=0.1)
    assert stiefel.defect(far).item() < 1e-5


@pytest.mark.parametrize("name", optimizers())
def test_a_weight_scaled_later_is_named_and_the_others_move(name):
    far, other = point(4, 6), point(5, 7)
    optimizer = optimizers()[name]([far, other])
    give_gradient([far, other], seed=0)
    with torch.no_grad():
        far.mul_(5)
    held, moved = far.detach().clone(), other.detach().clone()
    with pytest.raises(
        RuntimeError, match=r"1 matrix was left in place: .* \(4, 6\) .* Call stiefel.orthonormalize_"
    ):
        optimizer.step()
    assert torch.equal(far, held) and not torch.equal(other, moved)
    assert optimizer.skipped_steps() == 1
    stiefel.orthonormalize_(far)
    optimizer.step()
    assert not torch.equal(far, held) and stiefel.defect(far).item() < 1e-12


def test_a_sparse_gradient_is_refused():
    weight = point(4, 6)
    optimizer = stiefel.CayleySGD([weight], lr=0.1)
    weight.grad = torch.randn(4, 6, dtype=torch.float64).to_sparse()
    with pytest.raises(RuntimeError, match=r"\(4, 6\) is sparse.*make it dense"):
        optimizer.step()


def test_a_bad_rate_set_later_is_refused():
    weight = point(4, 6)
    optimizer = stiefel.CayleySGD([weight], lr=0.1)
    optimizer.param_groups[0]["lr"] = float("inf")
    with pytest.raises(ValueError, match="lr must be finite"):
        optimizer.step()
