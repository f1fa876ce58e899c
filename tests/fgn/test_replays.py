"""Launches that come again with the same addresses are replayed as one CUDA graph (`fgn.native.replays`)."""

import copy
import random
import threading

import pytest
import torch
from rounding import ROUNDOFF
from torch import nn

import fgn
from fgn import chain_forward
from fgn.chains import Chain
from fgn.measure.accuracy import relative_error
from fgn.native import cublas, replays
from fgn.native.library import for_device
from fgn.native.replays import Replays
from fgn.operators import Pointwise
from fgn.reference import chain_reference64

NORM = Chain("norm", before=(), groups=4, after=(Pointwise("silu"),))
ROUNDS = 3 * replays.TIMES


@pytest.fixture
def gradients():
    with torch.enable_grad():
        yield


@pytest.fixture
def counted(monkeypatch):
    """How many launches of each kind there were: {"graphs": …, "launches": …}."""
    counts = {"graphs": 0, "launches": 0}
    call = Replays.__call__

    def counting(self, addresses, stream):
        before = self.replayed
        call(self, addresses, stream)
        counts["graphs" if self.replayed > before else "launches"] += 1

    monkeypatch.setattr(Replays, "__call__", counting)
    return counts


def test_what_cannot_be_captured_is_launched():
    """The simulator has no graphs: the call goes on, after one warning."""
    launched = []
    run = Replays(for_device("cpu").load(), lambda addresses, stream: launched.append((addresses, stream)))
    with pytest.warns(UserWarning, match="the simulator has no CUDA graphs") as warned:
        for _ in range(ROUNDS):
            run((1, 2), 7)
    assert launched == [((1, 2), 7)] * ROUNDS and len(warned) == 1 and run.replayed == 0


def test_addresses_that_never_come_again_are_not_kept():
    run = Replays(for_device("cpu").load(), lambda addresses, stream: None)
    for address in range(3 * replays.MOST_SETS):
        run((address,), 0)
    assert len(run._seen) == replays.MOST_SETS and run._captures == 0


def test_captures_are_paid_by_replays(monkeypatch):
    """Addresses that come twice are captured at once, but not without end unless they are replayed."""
    monkeypatch.setattr(Replays, "_captured", lambda self, addresses: object())
    run = Replays(for_device("cpu").load(), lambda addresses, stream: None)
    run._function = lambda graph, stream: 0
    most = replays.FREE_CAPTURES
    try:
        for address in range(3 * most):
            run((address,), 0)
            run((address,), 0)
        assert run._captures == most and run.replayed == 0
        for _ in range(2 * replays.REPLAYS_PER_CAPTURE):  # the last ones captured
            run((replays.TIMES,), 0)
        for address in range(100, 110):
            run((address,), 0)
            run((address,), 0)
        assert run._captures == most + 2 and run.replayed == 2 * replays.REPLAYS_PER_CAPTURE
    finally:
        replays.forget()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "dtype, sizes", [(torch.float32, (100, 200, 16384)), (torch.float16, (1000, 100, 8192))]
)
def test_a_long_sum_is_divided(dtype, sizes):
    """A weight's gradient over many rows needs memory for the sums of its parts: without it, cuBLAS took 70
    times as long."""
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("known of Hopper's cuBLAS")
    product = cublas.product(sizes, dtype, 0, "ieee", first_is_t=False, second_is_t=True)
    assert product.bytes >= 2 * sizes[0] * sizes[1] * dtype.itemsize


def test_the_simulator_has_neither(monkeypatch):
    library = for_device("cpu").load()
    assert replays.for_launches(library, -1, print) is print
    assert cublas.product((4, 4, 4), torch.float32, -1, "ieee") is None


def tensors_of(draw: random.Random, dtype, rows=None, channels=None):
    rows, channels = rows or draw.choice((1, 3, 64, 500)), channels or draw.choice((16, 64, 320, 1000))
    depth = draw.choice((8, 64, 768))
    make = dict(device="cuda", dtype=dtype)
    x, weight = torch.randn(rows, depth, **make), torch.randn(channels, depth, **make) / depth**0.5
    vectors = {name: torch.randn(channels, **make) for name in ("bias", "norm_weight", "norm_bias")}
    return x, {"weight": weight, **vectors}


def is_near(y, expected) -> bool:
    """Whether the error is that of a product and a result that are rounded to y's type."""
    return relative_error(y, expected) < 4 * ROUNDOFF[y.dtype]


def check(x, parameters, version=None):
    y = chain_forward(NORM, x, parameters, version=version)
    assert is_near(y, chain_reference64(NORM, x, parameters))


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
@pytest.mark.parametrize("seed", range(6))
def test_values_follow_what_is_in_memory(seed, dtype, counted):
    """The contents change under the same addresses, by the user and by an optimizer."""
    draw = random.Random(f"{seed} {dtype}")
    torch.manual_seed(seed)
    x, parameters = tensors_of(draw, dtype)
    for _ in range(ROUNDS):
        x.normal_()
        parameters["weight"].add_(0.01)
        parameters["bias"].mul_(0.9)
        check(x, parameters, draw.choice((None, None, "library")))
    assert counted["graphs"] > 0


@pytest.mark.gpu
@pytest.mark.parametrize("rows", (7, 16, 300))
def test_cublas_divides_no_depth_into_short_parts(rows):
    """Parts of a depth of 200 would be shorter than 128, so nothing is left to add up in scratch memory."""
    assert cublas.product((rows, 384, 200), torch.float32, 0, "ieee").bytes <= 4 * rows * 384


@pytest.mark.gpu
def test_other_addresses_are_launched_anew(counted):
    x, parameters = tensors_of(random.Random(1), torch.bfloat16)
    for _ in range(ROUNDS):
        check(x, parameters)
    assert counted["graphs"] > 0
    kept, counted["graphs"] = [], 0
    for _ in range(ROUNDS):
        other = torch.randn_like(x)
        changed = {name: torch.randn_like(value) for name, value in parameters.items()}
        kept.append((other, changed, chain_forward(NORM, other, changed)))
    assert counted["graphs"] == 0
    for other, changed, y in kept:
        assert is_near(y, chain_reference64(NORM, other, changed))


@pytest.mark.gpu
def test_streams_and_threads(counted):
    """Eight threads, each with its own stream, call one module with inputs of their own."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 256), nn.GroupNorm(8, 256), nn.SiLU()).cuda().bfloat16()
    fused, wide, wrong = fgn.fuse(module), copy.deepcopy(module).double(), []

    def work(number):
        with torch.cuda.stream(torch.cuda.Stream()), torch.no_grad():
            torch.manual_seed(number)
            x = torch.empty(32, 64, device="cuda", dtype=torch.bfloat16)
            for _ in range(60):
                x.normal_()
                if not is_near(fused(x), wide(x.double())):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and counted["graphs"] > 0


@pytest.mark.gpu
def test_a_capture_of_the_users(counted):
    """A graph that the user captures has the launches, not a graph in a graph, and follows its inputs."""
    x, parameters = tensors_of(random.Random(2), torch.float32, rows=64)
    for _ in range(ROUNDS):
        chain_forward(NORM, x, parameters)
    assert counted["graphs"] > 0
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = chain_forward(NORM, x, parameters)
    for _ in range(3):
        x.normal_()
        graph.replay()
        assert is_near(y, chain_reference64(NORM, x, parameters))


@pytest.mark.gpu
def test_a_capture_in_another_thread_goes_on(counted):
    """Graphs are made while another thread captures in torch's default mode, which forbids much to all
    threads."""
    x, parameters = tensors_of(random.Random(3), torch.float32, rows=64)
    for _ in range(2):  # what is made once
        chain_forward(NORM, x, parameters)
    torch.cuda.synchronize()
    value, ready, done = torch.zeros(4, device="cuda"), threading.Event(), threading.Event()
    graph, failed = torch.cuda.CUDAGraph(), []

    def capture():
        try:
            with torch.cuda.graph(graph):
                value.add_(1)
                ready.set()
                done.wait(60)
        except Exception as error:  # the thread's, for the test
            failed.append(error)

    thread = threading.Thread(target=capture)
    thread.start()
    ready.wait(60)
    for _ in range(ROUNDS):
        chain_forward(NORM, x, parameters)
    done.set()
    thread.join()
    assert not failed and counted["graphs"] > 0
    graph.replay()
    assert value.tolist() == [1.0] * 4


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.usefixtures("gradients")
def test_training_steps(dtype, counted):
    """Twenty steps of a model follow torch's in float64 as well as torch's own steps do. Its tensors are so
    large that torch's allocator returns the same memory in every second step."""
    torch.manual_seed(0)
    layers = [nn.Linear(512, 1024), nn.GroupNorm(8, 1024), nn.GELU(), nn.Linear(1024, 512), nn.LayerNorm(512)]
    model = nn.Sequential(*layers).cuda().to(dtype)
    models = {"torch": model, "fgn": fgn.fuse(copy.deepcopy(model)), "float64": copy.deepcopy(model).double()}
    losses = {}
    for name, own in models.items():
        optimizer = torch.optim.SGD(own.parameters(), 0.05)
        torch.manual_seed(1)
        losses[name] = []
        for _ in range(20):
            x = torch.randn(256, 512, device="cuda").to(dtype).to(own[0].weight.dtype)
            loss = (own(x) - x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[name].append(loss.item())
    assert counted["graphs"] > 0
    of = {name: torch.tensor(losses[name], dtype=torch.float64) for name in losses}
    ours, theirs = ((of[name] - of["float64"]).abs().max() for name in ("fgn", "torch"))
    assert ours <= 2 * theirs + 4 * ROUNDOFF[dtype] * of["float64"].max()


@pytest.mark.gpu
def test_rows_behind_a_product(counted):
    torch.manual_seed(0)
    for rest in (nn.Softmax(-1), nn.LogSoftmax(-1)):
        model = nn.Sequential(nn.Linear(128, 500), nn.GELU(), rest).cuda().bfloat16().eval()
        fused, wide = fgn.fuse(model), copy.deepcopy(model).double()
        x = torch.empty(200, 128, device="cuda", dtype=torch.bfloat16)
        before = counted["graphs"]
        with torch.no_grad():
            for _ in range(ROUNDS):
                x.normal_()
                assert is_near(fused(x), wide(x.double()))
        assert counted["graphs"] > before


@pytest.mark.gpu
def test_off(monkeypatch, counted):
    monkeypatch.setenv("FGN_GRAPHS", "0")
    fgn.native.repeated.forget()
    x, parameters = tensors_of(random.Random(4), torch.bfloat16)
    for _ in range(ROUNDS):
        check(x, parameters)
    assert counted == {"graphs": 0, "launches": 0}


@pytest.mark.gpu
def test_graphs_are_bounded(monkeypatch):
    monkeypatch.setattr(replays, "MOST_GRAPHS", 5)
    replays.forget()
    for seed in range(8):
        x, parameters = tensors_of(random.Random(seed), torch.bfloat16)
        for _ in range(ROUNDS):
            check(x, parameters)
    assert len(replays._graphs) <= 5


@pytest.mark.gpu
@pytest.mark.parametrize("seed", range(40))
def test_products_of_cublas(seed):
    """Every kind of product: with a bias, and with one of its matrices given the other way round."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    dtype = draw.choice((torch.float32, torch.float16, torch.bfloat16))
    rows, columns, depth = (draw.choice((1, 2, 7, 64, 130, 1000, 4096)) for _ in range(3))
    first_is_t, second_is_t = draw.random() < 0.5, draw.random() < 0.5
    has_bias, precision = draw.random() < 0.5, draw.choice(("ieee", "tf32"))
    sizes = rows, columns, depth
    made = cublas.product(
        sizes, dtype, 0, precision, has_bias=has_bias, first_is_t=first_is_t, second_is_t=second_is_t
    )
    if made is None:
        pytest.skip(f"cuBLAS has no product of {sizes} {dtype}")
    make = dict(device="cuda", dtype=dtype)
    second = torch.randn(*((depth, rows) if second_is_t else (rows, depth)), **make)
    first = torch.randn(*((columns, depth) if first_is_t else (depth, columns)), **make)
    bias = torch.randn(columns, **make) if has_bias else None
    d = torch.full((rows, columns), float("nan"), **make)
    workspace = torch.empty(made.bytes + 1, dtype=torch.uint8, device="cuda")
    stream = torch.cuda.current_stream().cuda_stream
    pointers = [0 if one is None else one.data_ptr() for one in (second, first, bias, d, workspace)]
    made(*pointers, stream)
    wide = second.double().t() if second_is_t else second.double()
    expected = wide @ (first.double().t() if first_is_t else first.double())
    expected = expected if bias is None else expected + bias.double()
    factor = 4e3 if precision == "tf32" and dtype == torch.float32 else 8
    assert relative_error(d, expected) < factor * ROUNDOFF[dtype] + 4e-7
