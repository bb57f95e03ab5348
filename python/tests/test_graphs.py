"""CUDA graphs: what cannot be captured is refused before anything is."""
import pytest
import stiefel
import torch
from support import give_gradient, point

CAPTURABLE = ("polar-ns", "qr", "cholesky-qr")
WAITING = ("polar", "wen-yin", "cayley-closed", "cayley-exact")
NAMES_OF_CAPTURABLE = "those that can are 'polar-ns', 'qr', 'cholesky-qr'"


@pytest.fixture
def capturing(monkeypatch):
    """torch says that a capture is under way."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True, raising=False)


@pytest.mark.parametrize("name", WAITING)
def test_a_retraction_that_waits_is_refused_at_construction(name):
    weight = point(4, 6)
    message = f"capturable is True, but the retraction '{name}' waits for the host .*{NAMES_OF_CAPTURABLE}"
    with pytest.raises(ValueError, match=message):
        stiefel.RetractionSGD([weight], 0.1, name, capturable=True)
    optimizer = stiefel.RetractionSGD([weight], 0.1, "polar-ns", capturable=True)
    with pytest.raises(ValueError, match=message):
        optimizer.add_param_group({"params": [point(3, 5)], "retraction": name})
    assert len(optimizer.param_groups) == 1
    # A Euclidean group has no retraction.
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.ones(3))], "manifold": "euclidean"})


@pytest.mark.parametrize("name", WAITING)
def test_a_retraction_that_waits_is_refused_in_a_capture(name, capturing, monkeypatch):
    weight = point(4, 6)
    optimizer = stiefel.RetractionSGD([weight], 0.1, name, momentum=0.9)
    give_gradient([weight], seed=0)
    with monkeypatch.context() as outside:
        outside.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        optimizer.step()
    before = weight.detach().clone()
    with pytest.raises(RuntimeError, match=f"is captured .*the retraction '{name}' .*{NAMES_OF_CAPTURABLE}"):
        optimizer.step()
    assert torch.equal(weight, before)


@pytest.mark.parametrize("name", CAPTURABLE)
def test_the_named_retractions_pass(name, capturing, monkeypatch):
    weight = point(4, 6)
    optimizer = stiefel.RetractionSGD([weight], 0.1, name, capturable=True)
    give_gradient([weight], seed=0)
    with pytest.raises(RuntimeError, match="take one step before the capture"):
        optimizer.step()
    with monkeypatch.context() as outside:
        outside.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
        optimizer.step()
    before = weight.detach().clone()
    optimizer.step()
    assert not torch.equal(weight, before)


@pytest.mark.parametrize(
    "make,what",
    [
        (lambda w, **o: stiefel.CayleySGD(w, lr=0.1, exact=True, **o), "linear solve of exact=True"),
        (lambda w, **o: stiefel.CayleyAdam(w, lr=0.1, exact=True, **o), "linear solve of exact=True"),
        (lambda w, **o: stiefel.CayleyMuon(w, exact_root=True, **o), "eigendecomposition of exact_root=True"),
    ],
)
def test_decompositions_of_the_cayley_step_are_refused(make, what, capturing):
    weight = point(4, 6)
    with pytest.raises(ValueError, match=f"capturable is True, but the {what} waits for the host"):
        make([weight], capturable=True)
    optimizer = make([weight])
    give_gradient([weight], seed=0)
    with pytest.raises(RuntimeError, match=f"the {what} waits for the host"):
        optimizer.step()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: nothing can be captured")
@pytest.mark.parametrize("name", CAPTURABLE)
def test_replays_equal_steps(name):
    weights = [torch.nn.Parameter(point(16, 40, dtype=torch.float32).detach().cuda()) for _ in range(2)]
    captured, eager = (
        stiefel.RetractionSGD([w], 0.1, name, momentum=0.9, capturable=True) for w in weights
    )
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    gradients = [torch.randn(16, 40, device="cuda") for _ in range(5)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for weight, optimizer in zip(weights, (captured, eager)):
            weight.grad.copy_(gradients[0])
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured.step()
    for gradient in gradients[1:]:
        for weight in weights:
            weight.grad.copy_(gradient)
        graph.replay()
        eager.step()
    assert (weights[0] - weights[1]).abs().max().item() < 1e-6
    assert stiefel.defect(weights[0]).item() < 1e-4


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: nothing can be captured")
def test_a_refused_capture_leaves_torch_usable():
    weight = torch.nn.Parameter(point(16, 40, dtype=torch.float32).detach().cuda())
    optimizer = stiefel.RetractionSGD([weight], 0.1)
    weight.grad = torch.randn_like(weight)
    optimizer.step()
    with pytest.raises(RuntimeError, match="the retraction 'polar' waits for the host"):
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            optimizer.step()
    optimizer.step()
    torch.cuda.synchronize()
    assert stiefel.defect(weight).item() < 1e-2
