"""Models whose forward() cannot be traced: it runs as it is, and its products are promises."""

from __future__ import annotations

import functools
import gc
import random
import threading
import warnings
import weakref

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fgn
from fgn.fusing import promises, recording

D = 16


def decorated(forward):
    """As libraries wrap forward(): it reads a variable of another function, so that it is not traced."""

    @functools.wraps(forward)
    def wrapper(*args, **kwargs):
        return forward(*args, **kwargs)

    return wrapper


class _Rms(nn.Module):
    """As the transformers library writes it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(D))

    def forward(self, h):
        dtype = h.dtype
        h = h.to(torch.float32)
        variance = h.pow(2).mean(-1, keepdim=True)
        h = h * torch.rsqrt(variance + 1e-6)
        return self.weight * h.to(dtype)


class Untraced(nn.Module):
    """Runs `steps(self, x)`, of a Linear and two norms."""

    def __init__(self, steps):
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(D, D) for _ in range(3))
        self.norm, self.rms = nn.LayerNorm(D), _Rms()
        self.steps = steps

    @decorated
    def forward(self, x, **more):
        return self.steps(self, x, **more)


def made(steps, device="cpu", dtype=torch.float32):
    torch.manual_seed(0)
    return Untraced(steps).eval().to(device=device, dtype=dtype)


def compared(steps, x=None, device="cpu", **more):
    """The chains that were found, after the results of three calls were compared with the model's."""
    model = made(steps, device)
    x = torch.randn(6, D, device=device) if x is None else x.to(device)
    with torch.no_grad():
        expected = model(x.clone(), **more)
        fused = fgn.fuse(model)
        for _ in range(3):
            with recording.noting() as noted:
                result = fused(x.clone(), **more)
            torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)
            assert type(result) is not promises.Promise
    return [one.steps for one in noted if one.steps is not None]


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """Small calls are promised too."""
    monkeypatch.setattr(recording, "FEWEST_OPERATIONS", {True: 0.0, False: 0.0})


# ---- What is found ----


def test_a_sum_that_is_read_again_and_its_norm_are_one_call(device):
    def block(m, x):
        h = x + m.a(x)
        return h + m.b(F.gelu(m.c(m.norm(h))))

    assert compared(block, device=device) == ["linear → add → layer_norm", "linear → gelu", "linear → add"]


def test_a_sum_that_nobody_holds_is_not_written(device):
    def block(m, x):
        h = m.a(x)
        h = h + x
        h = m.norm(h)
        return torch.cat([h, h])

    assert compared(block, device=device) == ["linear → add → layer_norm"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_rms_norm_by_formulas_is_one(device, dtype):
    def block(m, x):
        h = x + m.a(x)
        return h, m.rms(h)

    model = made(block, device, dtype)
    x = torch.randn(2, 3, D, device=device, dtype=dtype)
    with torch.no_grad(), recording.noting() as noted:
        result, expected = fgn.fuse(model)(x), model(x)
    assert [one.steps for one in noted] == ["linear → add → rms_norm"]
    tolerance = {} if dtype == torch.float32 else {"rtol": 0.02, "atol": 0.02}
    torch.testing.assert_close(result, expected, **tolerance)


@pytest.mark.parametrize(
    "formula",
    [
        lambda h, w: w * (h * torch.rsqrt(h.pow(2).mean(0, keepdim=True) + 1e-6)),
        lambda h, w: w * (h * torch.rsqrt(h.pow(3).mean(-1, keepdim=True) + 1e-6)),
        lambda h, w: w * (h.abs() * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)),
        lambda h, w: w * (h * torch.rsqrt(h.abs().mean(-1, keepdim=True) + 1e-6)),
        lambda h, w: w.double() * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6)),
        lambda h, w: torch.cat([r := torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6), h * r], -1),
    ],
)
def test_formulas_that_are_nearly_an_rms_norm_are_none(formula):
    steps = compared(lambda m, x: formula(m.a(x).relu(), m.rms.weight))
    assert not any("rms_norm" in one for one in steps)


def test_views_of_rows_between_a_product_and_its_norm(device):
    def block(m, x):
        rows = torch.addmm(m.a.bias, x.view(-1, x.size(-1)), m.a.weight)
        h = rows.view(x.size()) + x
        return m.norm(h)

    assert compared(block, torch.randn(2, 3, D), device) == ["matmul → add → add → layer_norm"]


def test_a_view_of_rows_with_an_operand_that_is_broadcast():
    def block(m, x):
        rows = m.a(x.view(-1, D)) + x[:1, 0]
        return m.norm(rows.view(x.size()) + x)

    compared(block, torch.randn(2, 3, D))


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_view_of_rows_with_an_operand_of_one_element(shape):
    """Operands of no or one dimension stay as they are where the view moves before the product."""
    number = nn.Parameter(torch.full(shape, 0.5))
    found = compared(lambda m, x: m.norm((F.relu(m.a(x)) * number).reshape(x.shape[0], -1) + number))
    assert shape == (1, 1) or found == ["linear → relu → mul → add → layer_norm"]


def test_views_that_change_more_than_rows():
    compared(lambda m, x: m.norm(F.relu(m.a(x)).view(3, 2, D).transpose(0, 1)))
    compared(lambda m, x: F.relu(m.a(x)).view(-1, D // 2) + 1)


def test_traced_modules_inside():
    class Outer(Untraced):
        def __init__(self, steps):
            super().__init__(steps)
            self.inner = nn.Sequential(nn.Linear(D, D), nn.ReLU(), nn.LayerNorm(D))

    torch.manual_seed(0)
    model = Outer(lambda m, x: m.norm(x + m.inner(x))).eval()
    x = torch.randn(6, D)
    with torch.no_grad():
        torch.testing.assert_close(fgn.fuse(model)(x), model(x))


def test_explain_names_the_products_that_were_promised():
    explained = fgn.explain(made(lambda m, x: m.norm(x + m.a(x)) + m.b(x)), torch.randn(6, D))
    words = {(one.module, one.linear): one.fused for one in explained.verdicts}
    assert words == {("", "a"): "linear → add → layer_norm → add", ("", "b"): None}
    assert [path for path, _ in explained.untraced] == [""]


_STEPS = (
    lambda m, u, v, k: m.a(u),
    lambda m, u, v, k: F.linear(u, m.b.weight),
    lambda m, u, v, k: torch.addmm(m.c.bias, u.reshape(-1, D), m.c.weight).view(u.shape),
    lambda m, u, v, k: u + v,
    lambda m, u, v, k: v - u,
    lambda m, u, v, k: u * v,
    lambda m, u, v, k: 1 - u * (k / 2),
    lambda m, u, v, k: m.norm(u + v),
    lambda m, u, v, k: m.rms(u),
    lambda m, u, v, k: (F.relu, F.gelu, torch.tanh, F.silu)[k](u),
    lambda m, u, v, k: F.dropout(u, 0.5, m.training),
    lambda m, u, v, k: u.softmax(-1) + u.mean(-1, keepdim=True),
    lambda m, u, v, k: u.view(-1, D).view(u.shape),
    lambda m, u, v, k: u.transpose(0, 1).contiguous().transpose(0, 1),
    lambda m, u, v, k: u.add_(1),
    lambda m, u, v, k: u if u.sum() > 0 else -u,
)


@pytest.mark.parametrize("seed", range(40))
def test_programs_drawn_at_random(seed):
    """Values are read again, let go, kept and changed in place, in an order that is drawn."""
    draw = random.Random(seed)
    program = [
        (draw.choice(_STEPS), draw.choice((-1, -1, draw.randrange(5))), draw.randrange(5), draw.randrange(4))
        for _ in range(draw.randrange(3, 14))
    ]

    def steps(m, x):
        values, kept = [x], []
        for step, first, second, k in program:
            values.append(step(m, values[first % len(values)], values[second % len(values)], k))
            if k == 0:
                values.pop(0)
            elif k == 1:
                kept.append(values[-1])
        return values[-1], *kept

    model, x = made(steps), torch.randn(draw.choice([(3, D), (2, 3, D), (1, D)]))
    fused = fgn.fuse(model)
    for _ in range(2):
        results, expected = fused(x.clone()), model(x.clone())
        scale = max(value.abs().max().item() for value in expected)
        for result, value in zip(results, expected, strict=True):
            assert type(result) is torch.Tensor
            torch.testing.assert_close(result, value, rtol=1e-3, atol=1e-4 * max(1.0, scale))


# ---- Nothing is stale, and nothing is disturbed ----


def test_inputs_that_change_behind_the_product(device):
    def steps(m, x):
        y = m.a(x)
        x += 1
        x[0] = 7
        return m.norm(y + x), y

    compared(steps, device=device)


def test_a_weight_that_changes_behind_the_product():
    def steps(m, x):
        y = F.relu(m.a(x))
        with torch.no_grad():
            m.a.weight.add_(1)
            z = m.a(x)
            m.a.weight.sub_(1)
        return y, z

    compared(steps)


def test_a_promise_is_changed_in_place():
    def steps(m, x):
        y = m.a(x)
        z = F.dropout(y, 0.5, training=False)  # the same tensor
        y.mul_(2)
        y += x
        return y, F.relu(z), F.relu(y, inplace=True), F.relu(y, True)

    compared(steps)


def test_python_reads_numbers():
    def steps(m, x):
        y = m.a(x)
        if y.sum() > 0 or float(y[0, 0]) > 0:
            y = -y
        values = y.tolist(), y.numpy().copy(), repr(y), [row.max().item() for row in m.b(x)]
        return y, torch.tensor(values[0]), torch.tensor(values[1]), torch.tensor(values[3])

    compared(steps)


def test_facts_are_known_without_numbers():
    seen = []

    def steps(m, x):
        y = F.gelu(m.a(x))
        seen.append((y.shape, y.size(-1), y.dtype, y.device, y.dim(), y.ndim, y.numel(), y.requires_grad))
        assert isinstance(y, torch.Tensor) and len(y) == len(x)
        return m.norm(y + x)

    compared(steps)
    assert len(set(seen)) == 1


def test_constants_that_differ():
    def steps(m, x, *, k=1.0):
        return F.relu(m.a(x)) * k

    for k in (2.0, 3, True, -0.0, 0.0, float("nan"), 2.0):
        model, x = made(steps), torch.randn(6, D)
        with torch.no_grad():
            result, expected = fgn.fuse(model)(x, k=k), model(x, k=k)
        torch.testing.assert_close(result, expected, equal_nan=True)
        assert torch.equal(result.signbit(), expected.signbit())


def test_constants_that_keep_changing(monkeypatch):
    monkeypatch.setattr(recording, "MOST_STATES", 8)
    count = iter(range(100))

    def steps(m, x):
        return F.relu(m.a(x)) * (k := float(next(count))), torch.tensor(k)

    fused, x = fgn.fuse(made(steps)), torch.randn(6, D)
    with torch.no_grad(), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(20):
            y, k = fused(x)
            torch.testing.assert_close(y, F.relu(fused.a(x)) * k)
    assert len([one for one in said if "keep changing" in str(one.message)]) == 1


def test_shapes_that_change():
    model = made(lambda m, x: m.norm(x + m.a(x)))
    fused = fgn.fuse(model)
    with torch.no_grad():
        for shape in ((1, D), (5, D), (2, 3, D), (0, D), (2, 0, D), (D,), (1, 2, 3, D), (5, D)):
            x = torch.randn(shape)
            torch.testing.assert_close(fused(x), model(x))


def test_errors_are_torch_s_own_and_at_their_place():
    def steps(m, x):
        y = m.a(x)
        return y + torch.zeros(5, 5)

    model, x = made(steps), torch.randn(6, D)
    for one in (model, fgn.fuse(model)):
        with torch.no_grad(), pytest.raises(RuntimeError, match="size of tensor a") as error:
            one(x)
        assert any("torch.zeros(5, 5)" in str(entry.statement) for entry in error.traceback)


def test_a_failed_call_leaves_the_next_one_alone():
    def steps(m, x, *, fails=False):
        y = F.relu(m.a(x))
        if fails:
            raise KeyError("mine")
        return m.norm(y)

    model, x = made(steps), torch.randn(6, D)
    fused = fgn.fuse(model)
    with torch.no_grad():
        for _ in range(2):
            with pytest.raises(KeyError, match="mine"):
                fused(x, fails=True)
            torch.testing.assert_close(fused(x), model(x))
    assert not torch._C._is_torch_function_mode_enabled()


def test_values_that_leave_by_other_ways(device):
    kept = []

    class Box:
        pass

    def steps(m, x):
        box = Box()
        box.y, box.z = F.relu(m.a(x)), {"z": [m.b(x)]}
        kept.append(box)
        m.seen = m.c(x)
        return m.norm(box.y + x)

    model = made(steps, device)
    x = torch.randn(6, D, device=device)
    with torch.no_grad():
        fused = fgn.fuse(model)
        fused(x)
        torch.testing.assert_close(kept[0].y, F.relu(model.a(x)))
        torch.testing.assert_close(kept[0].z["z"][0], model.b(x))
        torch.testing.assert_close(fused.seen, model.c(x))
    assert type(kept[0].y) is torch.Tensor and type(fused.seen) is torch.Tensor


def test_weak_references_and_hooks_of_modules():
    seen = []

    def steps(m, x):
        y = m.a(x)
        y = m.norm(y + x)
        reference = weakref.ref(y)
        z = y.sum()
        assert reference() is y
        return y * 2, z

    compared(steps)
    model = made(lambda m, x: m.norm(F.relu(m.a(x)) + x))
    x = torch.randn(6, D)
    fused = fgn.fuse(model)
    fused.norm.register_forward_pre_hook(lambda module, args: seen.append(args[0]))
    with torch.no_grad():
        fused(x)
        torch.testing.assert_close(seen[0], F.relu(model.a(x)) + x)


def test_another_thread_reads_a_promise():
    def steps(m, x):
        y, found = F.relu(m.a(x)), []
        thread = threading.Thread(target=lambda: found.append(y + 1))
        thread.start()
        thread.join()
        return found[0], m.norm(y)

    compared(steps)


def test_threads_that_call_one_model():
    model = made(lambda m, x: m.norm(x + m.b(F.gelu(m.a(x)))))
    fused, wrong = fgn.fuse(model), []

    def run(seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for _ in range(30):
                x = torch.randn(1 + seed, D, generator=generator)
                if not torch.allclose(fused(x), model(x), rtol=1e-4, atol=1e-5):
                    wrong.append(seed)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_settings_within_forward():
    def steps(m, x):
        y = F.relu(m.a(x))
        with torch.autocast("cpu", torch.bfloat16):
            z = m.b(y)
        with torch.enable_grad():
            w = m.c(y)
        return y, z.float(), w.detach(), torch.tensor(w.requires_grad)

    model, x = made(steps), torch.randn(6, D)
    with torch.no_grad():
        torch.testing.assert_close(fgn.fuse(model)(x), model(x), rtol=0.02, atol=0.02)


def test_gradients_are_torch_s_own():
    model = made(lambda m, x: m.norm(x + m.a(x)))
    x = torch.randn(6, D, requires_grad=True)
    with recording.noting() as noted, torch.enable_grad():
        fgn.fuse(model)(x).square().sum().backward()
    assert not noted and x.grad is not None


def test_inference_mode_and_the_model_in_training():
    model = made(lambda m, x: F.dropout(F.relu(m.a(x)), 0.5, m.training))
    fused, x = fgn.fuse(model), torch.randn(6, D)
    with torch.inference_mode():
        torch.testing.assert_close(fused(x), model(x))
        for one in (fused.train(), model.train()):
            torch.manual_seed(3)
            last = one(x)
        torch.manual_seed(3)
        torch.testing.assert_close(fused(x), last)


def test_a_compiled_function_within_forward():
    calls = []

    def backend(graph, inputs):
        calls.append(graph)
        return graph.forward

    double = torch.compile(lambda v: v * 2 + 1, backend=backend)
    compared(lambda m, x: m.norm(double(F.relu(m.a(x)))))
    assert calls


def test_torch_compile_of_the_fused_model():
    model = made(lambda m, x: m.norm(x + m.a(x)))
    fused, x = torch.compile(fgn.fuse(model), backend="eager"), torch.randn(6, D)
    with torch.no_grad():
        torch.testing.assert_close(fused(x), model(x))


def test_transforms_within_forward():
    compared(lambda m, x: torch.vmap(lambda row: m.b(row))(F.relu(m.a(x))))


def test_nothing_is_kept_alive():
    model = made(lambda m, x: m.norm(x + m.a(x)))
    fused = fgn.fuse(model)
    with torch.no_grad():
        x = torch.randn(6, D)
        fused(x)
        reference = weakref.ref(x)
        del x
        gc.collect()
    assert reference() is None


def test_a_graph_of_a_gpu_records_the_call(device):
    if torch.device(device).type == "cpu":
        pytest.skip("CUDA graphs need a GPU")
    model = made(lambda m, x: m.norm(x + m.b(F.gelu(m.a(x)))), device)
    x = torch.randn(6, D, device=device)
    with torch.no_grad():
        fused = fgn.fuse(model)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            fused(x)
            fused(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = fused(x)
        x.normal_()
        graph.replay()
        torch.testing.assert_close(y, model(x), rtol=1e-4, atol=1e-5)


def test_another_stream_reads_a_promise(device):
    if torch.device(device).type == "cpu":
        pytest.skip("streams need a GPU")
    stream = torch.cuda.Stream()

    def steps(m, x):
        y = F.relu(m.a(x))
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            z = y * 2
        torch.cuda.current_stream().wait_stream(stream)
        return y, z

    with pytest.warns(UserWarning, match="changes the CUDA stream"):
        compared(steps, device=device)
