"""torch.compile and opcheck, where torch has them: what is traced computes what is not."""
import pytest
import stiefel
import torch
from support import give_gradient, optimizers, point, torch_release

ops = torch.ops.stiefel

needs_compile = pytest.mark.skipif(
    torch_release() < (2, 6),
    reason=f"compiled optimizers are for torch 2.6 and later; this is {torch.__version__}",
)
needs_opcheck = pytest.mark.skipif(
    not hasattr(torch.library, "opcheck"),
    reason=f"torch.library.opcheck is in torch 2.4 and later; this is {torch.__version__}",
)

SHAPES = ("test_aot_dispatch_static", "test_aot_dispatch_dynamic")
ALL = ("test_schema", "test_autograd_registration", "test_faketensor", *SHAPES)


def vector(seed, *shape):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def step_arguments(name):
    """Arguments of a step operator for two matrices, and keyword arguments."""
    points = [point(4, 6, seed=1).detach(), point(5, 3, seed=2).detach()]
    momenta = [torch.zeros_like(x) for x in points]
    gradients = [vector(i, *x.shape) for i, x in enumerate(points)]
    numbers = [[torch.zeros((), dtype=torch.float64) for _ in points] for _ in range(2)]
    skipped, off = (torch.zeros((), dtype=torch.int64) for _ in range(2))
    rate = torch.tensor(0.1, dtype=torch.float64)
    if name == "cayley_adam_":
        return (points, momenta, *numbers, gradients, skipped, rate), {"off_manifold": off}
    if name == "retraction_sgd_":
        return (points, momenta, gradients, skipped, rate, 0.9, "qr"), {"off_manifold": off}
    return (points, momenta, gradients, skipped, rate, 0.9), {"off_manifold": off}


STEPS = ("cayley_sgd_", "cayley_adam_", "cayley_muon_", "retraction_sgd_")


@needs_opcheck
@pytest.mark.parametrize("name", STEPS)
def test_opcheck_of_steps(name):
    arguments, options = step_arguments(name)
    torch.library.opcheck(getattr(ops, name).default, arguments, options, test_utils=ALL)
    options["off_manifold"] = None
    torch.library.opcheck(getattr(ops, name).default, arguments, options, test_utils=ALL)


@needs_opcheck
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("name", ["polar_direction", "defect", "project_tangent", "cayley_retraction"])
def test_opcheck_of_functions(name, batched):
    x = point(3, 4, 6, batched=batched).detach()
    arguments = (x,)
    if name in ("project_tangent", "cayley_retraction"):
        arguments = (x, stiefel.project_tangent(x, vector(1, 3, 4, 6)))
    torch.library.opcheck(getattr(ops, name).default, arguments, {"batched": batched}, test_utils=ALL)
    wanted = (x.clone().requires_grad_(), *arguments[1:])  # torch warns where such a result is differentiated
    torch.library.opcheck(getattr(ops, name).default, wanted, test_utils=("test_autograd_registration",))


@needs_opcheck
@pytest.mark.parametrize("name", ["orthonormalize_", "haar_", "identity_", "hadamard_", "block_rotation_"])
def test_opcheck_of_initializers(name):
    # They return the argument that they write, as torch.nn.init's functions do. AOTAutograd refuses operators
    # whose output is an input, so the tests that trace with it do not apply.
    torch.library.opcheck(
        getattr(ops, name).default,
        (point(4, 4).detach(),),
        test_utils=("test_schema", "test_autograd_registration", "test_faketensor"),
    )


@needs_opcheck
@pytest.mark.parametrize("kind", ["so", "dso", "srip"])
def test_opcheck_of_penalties(kind):
    weights = [vector(1, 3, 5), vector(2, 5, 3)]
    random = kind == "srip"  # its start; the other tests compare two calls
    tests = ("test_autograd_registration", "test_faketensor") if random else ALL
    torch.library.opcheck(ops.penalty.default, (weights, kind), test_utils=tests)
    # With gradients the operator is traced through, with the shapes that it sees.
    wanted = [weight.requires_grad_() for weight in weights]
    traced = [test for test in tests if test != "test_aot_dispatch_dynamic"]
    torch.library.opcheck(ops.penalty.default, (wanted, kind), test_utils=traced)


@needs_opcheck
@pytest.mark.parametrize("name", ["matrix-exp", "cayley", "householder", "omdsm"])
def test_opcheck_of_parametrizations(name):
    proxy = vector(1, 3, 5)
    torch.library.opcheck(ops.parametrized_start.default, (point(3, 5).detach(), name), test_utils=ALL)
    torch.library.opcheck(ops.orthonormal_weight.default, (proxy, name), test_utils=ALL)
    # With gradients it is traced through, with the shapes that it sees; OMDSM's eigenproblems read values.
    left_out = SHAPES if name == "omdsm" else ("test_aot_dispatch_dynamic",)
    torch.library.opcheck(
        ops.orthonormal_weight.default,
        (proxy.requires_grad_(), name),
        test_utils=[test for test in ALL if test not in left_out],
    )


BACKENDS = ("eager", "aot_eager", "inductor")


def compiled(function, backend, **options):
    """The function compiled into one graph; the test is skipped where the backend has no compiler."""
    torch._dynamo.reset()
    function = torch.compile(function, fullgraph=True, backend=backend, **options)

    def call(*arguments):
        try:
            return function(*arguments)
        except Exception as error:  # of several types, depending on what is missing
            missing = ("No module named 'setuptools", "InvalidCxxCompiler", "Python.h")
            if backend == "inductor" and any(part in str(error) for part in missing):
                pytest.skip(f"inductor cannot compile C++ here: {str(error).splitlines()[-1]}")
            raise

    return call


@needs_compile
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", STEPS)
def test_a_function_with_a_step_is_one_graph(name, backend):
    def train(arguments, options, twice):
        getattr(ops, name)(*arguments, **options)
        return twice * 2 + arguments[0][0]  # what comes after sees the stepped point

    arguments, options = step_arguments(name)
    expected = train(arguments, options, torch.ones(4, 6, dtype=torch.float64))
    ours, our_options = step_arguments(name)
    result = compiled(train, backend)(ours, our_options, torch.ones(4, 6, dtype=torch.float64))
    assert torch.equal(result, expected)
    start = step_arguments(name)[0]
    for was, eager, traced in zip(start[0], arguments[0], ours[0]):
        assert torch.equal(eager, traced) and not torch.equal(was, traced)
        assert stiefel.defect(traced).item() < 1e-12


@needs_compile
def test_one_graph_steps_matrices_of_many_shapes():
    traces = []

    def backend(graph, inputs):
        traces.append(graph)
        return graph.forward

    def step(x, m, g, skipped, rate):
        ops.cayley_sgd_([x], [m], [g], skipped, rate, 0.9)

    traced = compiled(step, backend, dynamic=True)
    for rows, columns in ((4, 6), (5, 9), (3, 7)):
        x, g = point(rows, columns).detach(), vector(1, rows, columns)
        m, skipped, rate = torch.zeros_like(x), torch.zeros((), dtype=torch.int64), torch.tensor(0.1).double()
        peer = (x.clone(), m.clone(), g, skipped, rate)
        traced(x, m, g, skipped, rate)
        step(*peer)
        assert torch.equal(x, peer[0])
    assert len(traces) == 1


@needs_compile
@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_of_weights_are_traced(backend):
    def work(x, z):
        tangent = stiefel.project_tangent(x, z)
        y = stiefel.cayley_retraction(x, tangent)
        return y, stiefel.defect(y) + 1, torch.ops.stiefel.polar_direction(tangent) * 2

    x, z = point(4, 6).detach(), vector(1, 4, 6)
    for traced, eager in zip(compiled(work, backend)(x, z), work(x, z)):
        assert torch.equal(traced, eager)


def pair_of_optimizers(name, dtype=torch.float64, batched=False, **options):
    """Two optimizers of equal parameters, on the manifold and not: one to be compiled, one not."""
    result = []
    for _ in range(2):
        shapes = [(3, 4, 6), (2, 5, 3)] if batched else [(4, 6), (3, 5) if name == "SGDG" else (5, 3), (4, 4)]
        start = torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype
        manifold = [
            torch.nn.Parameter(point(*shape, dtype=start, batched=batched, seed=i).detach().to(dtype))
            for i, shape in enumerate(shapes)
        ]
        free = [torch.nn.Parameter(torch.ones(3, dtype=torch.float64))]
        group = {"stiefel": False} if name == "SGDG" else {"manifold": "euclidean"}
        stack = {"batched": True} if batched else {}
        groups = [{"params": manifold, **stack}, {"params": free, **group}]
        result.append((optimizers()[name](groups, **options), manifold, free))
    return result


def with_tensor_rates(pair):
    for optimizer, _, _ in pair:
        for group in optimizer.param_groups:
            group["lr"] = torch.tensor(0.1, dtype=torch.float64)
    return pair


def run_both(pair, step, steps=6, spoiled=(), change=lambda optimizer, i: None):
    """Steps one optimizer by `step` and the other by its own, with equal gradients."""
    for i in range(steps):
        for k, (optimizer, manifold, free) in enumerate(pair):
            give_gradient(manifold + free, seed=i)
            if i in spoiled:
                manifold[0].grad.view(-1)[0] = float("nan")
            step() if k == 0 else optimizer.step()
            change(optimizer, i)


def assert_equal_weights(pair):
    (_, ours, our_free), (_, theirs, their_free) = pair
    for a, b in zip(ours, theirs):
        assert torch.equal(a, b)
    for a, b in zip(our_free, their_free):  # torch's own functions, whose compiled form rounds differently
        assert torch.allclose(a, b, rtol=1e-6, atol=0)


@needs_compile
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", optimizers())
def test_a_compiled_step_is_one_graph_and_equals_the_other(name, backend):
    pair = pair_of_optimizers(name)
    optimizer = pair[0][0]
    run_both(pair, compiled(lambda: optimizer.step(), backend), spoiled=(2, 3))
    assert_equal_weights(pair)
    assert optimizer.skipped_steps() == pair[1][0].skipped_steps() == 2


@needs_compile
@pytest.mark.parametrize(
    "dtype,batched",
    [(torch.float32, True), (torch.complex128, False), (torch.bfloat16, False), (torch.float16, True)],
)
def test_compiled_steps_of_other_types_and_of_stacks(dtype, batched):
    for name in ("CayleyAdam", "CayleyMuon"):
        pair = pair_of_optimizers(name, dtype, batched)
        optimizer, manifold, _ = pair[0]
        run_both(pair, compiled(lambda: optimizer.step(), "aot_eager"))
        assert_equal_weights(pair)
        # Steps that are not compiled go on from there, the masters of half weights among them.
        run_both(pair, optimizer.step)
        assert_equal_weights(pair)
        if dtype in (torch.bfloat16, torch.float16):
            master = optimizer.state[manifold[0]]["master"]
            assert torch.equal(manifold[0], master.to(dtype)) and stiefel.defect(master, batched).max() < 1e-5


@needs_compile
def test_a_half_weight_written_between_compiled_steps_becomes_its_master():
    half = torch.nn.Parameter(point(8, 12, dtype=torch.float32).detach().bfloat16())
    optimizer = stiefel.CayleySGD([half], lr=0.0)
    step = compiled(lambda: optimizer.step(), "aot_eager")
    give_gradient([half], seed=0)
    step()
    other = point(8, 12, dtype=torch.float32, seed=7).detach().bfloat16()
    with torch.no_grad():
        half.copy_(other)
    step()
    step()
    master = optimizer.state[half]["master"]
    assert (master - other.float()).abs().max().item() < 0.01 and stiefel.defect(master).item() < 1e-5


@needs_compile
@pytest.mark.parametrize("name", optimizers())
def test_a_tensor_rate_changes_without_another_graph(name):
    graphs = []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    pair = with_tensor_rates(pair_of_optimizers(name))
    optimizer = pair[0][0]
    step = compiled(lambda: optimizer.step(), backend)

    def change(optimizer, i):
        for group in optimizer.param_groups:
            group["lr"].mul_(0.8)

    run_both(pair, step, steps=3, change=change)
    settled = len(graphs)
    run_both(pair, step, steps=12, change=change)
    assert len(graphs) == settled
    assert_equal_weights(pair)


@needs_compile
def test_a_scheduled_optimizer_compiles_without_fullgraph():
    """torch wraps the step of a scheduled optimizer in a function that it does not trace; the step is."""
    pair = with_tensor_rates(pair_of_optimizers("CayleySGD"))
    schedules = {id(o): torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o, _, _ in pair}
    optimizer = pair[0][0]
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    step = torch.compile(lambda: optimizer.step(), backend="aot_eager")
    run_both(pair, step, steps=10, change=lambda o, i: schedules[id(o)].step())
    assert_equal_weights(pair)
    assert 1 <= torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 3


@needs_compile
def test_a_compiled_step_leaves_a_scaled_weight_and_the_count_names_it():
    weight = point(4, 6)
    optimizer = stiefel.CayleySGD([weight], lr=0.1)
    step = compiled(lambda: optimizer.step(), "aot_eager")
    give_gradient([weight], seed=0)
    step()
    with torch.no_grad():
        weight.mul_(5)
    before = weight.detach().clone()
    step()  # reads no value, so it cannot tell
    assert torch.equal(weight, before)
    with pytest.raises(RuntimeError, match=r"1 matrix was left in place: .* \(4, 6\)"):
        optimizer.skipped_steps()


@needs_compile
@pytest.mark.parametrize(
    "name,backend",
    [
        ("matrix-exp", "aot_eager"),
        ("cayley", "aot_eager"),
        ("householder", "aot_eager"),
        ("cayley", "inductor"),  # the others take it up to a minute
    ],
)
def test_a_compiled_model_with_parametrizations_and_penalties(name, backend):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(9, 6), torch.nn.ReLU(), torch.nn.Linear(6, 3)).double()
    torch.nn.utils.parametrize.register_parametrization(net[0], "weight", stiefel.nn.Orthonormal(name))
    data = vector(5, 7, 9)

    def loss(x):
        return net(x).square().mean() + 0.1 * stiefel.penalties.so(net[2].weight)

    loss(data).backward()
    expected = [p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    compiled(loss, backend)(data).backward()
    for parameter, gradient in zip(net.parameters(), expected):
        assert gradient.abs().max() > 0
        assert torch.allclose(parameter.grad, gradient, rtol=1e-9, atol=1e-12)
