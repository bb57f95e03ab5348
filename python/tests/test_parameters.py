"""Which parameters go on the manifold."""
import pytest
import stiefel
from torch import nn


def names(module, predicate=None):
    return stiefel.split_parameters(module, predicate).manifold_names


def test_linear_and_convolution_weights_but_the_classifier():
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.Conv2d(8, 8, 3, groups=2),
        nn.Conv2d(2, 30, 1),
        nn.ConvTranspose2d(8, 4, 3),
        nn.Flatten(),
        nn.Linear(40, 20),
        nn.Linear(20, 30),
        nn.Linear(30, 10),
    )
    split = stiefel.split_parameters(net)
    assert split.manifold_names == ["0.weight", "6.weight"]
    assert len(split.euclidean) + 2 == len(list(net.parameters()))
    assert split.manifold[0] is net[0].weight


def test_attention_and_recurrence():
    assert names(nn.MultiheadAttention(8, 2)) == ["in_proj_weight", "out_proj.weight"]
    assert names(nn.MultiheadAttention(8, 2, kdim=4, vdim=4)) == [
        "q_proj_weight",
        "k_proj_weight",
        "v_proj_weight",
        "out_proj.weight",
    ]
    assert names(nn.LSTM(5, 6, num_layers=2)) == ["weight_hh_l0", "weight_hh_l1"]
    assert names(nn.GRUCell(5, 6)) == ["weight_hh"]
    encoder = nn.TransformerEncoderLayer(8, 2, 16)
    assert names(encoder) == ["self_attn.in_proj_weight", "self_attn.out_proj.weight", "linear2.weight"]
    assert names(nn.Sequential(encoder, nn.Linear(8, 4))) == [
        "0.self_attn.in_proj_weight",
        "0.self_attn.out_proj.weight",
        "0.linear2.weight",
    ]


def test_frozen_shared_and_parametrized_weights():
    net = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    net[0].weight.requires_grad_(False)
    net[2].weight = net[1].weight
    assert names(net) == ["1.weight"]
    nn.utils.parametrize.register_parametrization(net[1], "bias", nn.Identity())
    assert names(net) == ["1.weight"]
    layer = nn.Sequential(nn.Linear(6, 4), nn.Linear(6, 4), nn.Linear(4, 2))
    nn.utils.parametrize.register_parametrization(layer[0], "weight", stiefel.nn.Orthonormal())
    assert names(layer) == ["1.weight"]


def test_a_predicate_decides():
    net = nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2))
    seen = {}

    def predicate(info):
        seen[info.name] = info.on_manifold
        return info.tensor.dim() == 2

    assert names(net, predicate) == ["0.weight", "1.weight"]
    assert seen == {"0.weight": True, "0.bias": False, "1.weight": False, "1.bias": False}


def test_nothing_to_take_is_warned_of():
    with pytest.warns(
        UserWarning, match="no parameter of Linear goes on the manifold: its last linear layer"
    ):
        assert names(nn.Linear(6, 4)) == []
    with pytest.warns(UserWarning, match="no parameter of BatchNorm1d .* it has no convolution"):
        names(nn.BatchNorm1d(4))
    with pytest.raises(ValueError, match="lazy"):
        names(nn.Sequential(nn.LazyLinear(4), nn.Linear(4, 2)))


def test_a_split_is_printed_by_names_and_shapes():
    split = stiefel.split_parameters(nn.Sequential(nn.Linear(6, 4), nn.Linear(4, 2)))
    assert repr(split).splitlines() == [
        "ParameterSplit(",
        "  manifold:",
        "    0.weight (4, 6)",
        "  euclidean:",
        "    0.bias (4,)",
        "    1.weight (2, 4)",
        "    1.bias (2,)",
        ")",
    ]
    info = stiefel.ParameterInfo("0.weight", split.manifold[0], True)
    assert repr(info) == "ParameterInfo(0.weight (4, 6), on_manifold=True)"
