"""Every item under "Try" at the end of a notebook works: each runs here, with the least of its notebook."""

import re
from dataclasses import replace

import nbformat
import pytest
import torch

import cudasim
import fgn
from cudasim.predicting import machine_code
from fgn import model
from fgn.bugs import gallery
from fgn.native.places import ROOT
from fgn.profiling import session
from fgn.teaching import backward
from fgn.teaching import hopper_steps as ladder
from fgn.teaching import lessons as teach
from fgn.teaching import tensor_core_lessons as cores

NAME = "gemm_biasadd_hardtanh_mish_groupnorm"
OWN = fgn.chains.Chain("mine", before=(), groups=32, after=(fgn.chains.Pointwise("silu"),))
NARROW = (16384, 1024, 1024, 32)
EIGHT_OPERATORS = fgn.chains.Chain(
    "mine", before=(fgn.chains.Pointwise("gelu"),) * 4, groups=16, after=(fgn.chains.Pointwise("silu"),) * 4
)


def cells(name):
    return nbformat.read(next((ROOT / "notebooks").glob(f"{name}*.ipynb")), as_version=4).cells


def cell_of(name, begins):
    """The CUDA C++ of a notebook's cell."""
    found = next(c.source for c in cells(name) if c.source.startswith("%%cuda") and begins in c.source)
    return found.split("\n", 1)[1]


def with_nvcc(function):
    if not machine_code.is_there():
        pytest.skip("there is no nvcc or no nvdisasm here")
    return function


def kernel_of(name, begins, *changes):
    """A kernel of a notebook's cell, with changes."""
    source = next(
        cell.source for cell in cells(name) if cell.source.startswith("%%cuda") and begins in cell.source
    )
    for before, after in changes:
        assert before in source
        source = source.replace(before, after)
    return fgn.kernel(source.removeprefix("%%cuda\n"))


def gathered(stride, gather=None, count=512):
    gather = gather or kernel_of("00", "gather")
    x, y = torch.rand(count * stride), torch.empty(count)
    gather[count // 256, 256](x, y, count, stride)


def sums_of(*changes):
    row_sum = kernel_of("05", "row_sum", *changes)
    x, sums = torch.rand(1, 300), torch.empty(1)
    return row_sum, x, sums


def first_barrier_left_out():
    row_sum, x, sums = sums_of(("partial[thread] = share;\n    __syncthreads();", "partial[thread] = share;"))
    with pytest.raises(fgn.KernelFault, match="race"):
        fgn.check(lambda: row_sum[1, 128](x, sums, 300))


def sum_written_by_another_thread():
    row_sum, x, sums = sums_of(("if (thread == 0)", "if (thread == 1)"))
    with pytest.raises(fgn.KernelFault, match="race"):
        fgn.check(lambda: row_sum[1, 128](x, sums, 300))


def groups_of_64():
    norm = kernel_of(
        "05",
        "my_norm",
        (
            "int channel = group % groups * 32 + threadIdx.x;",
            "int channel = group % groups * 64 + threadIdx.x;",
        ),
        ("int index = group * 32 + threadIdx.x;", "int index = group * 64 + threadIdx.x;"),
        ("float value = v[index];", "float value = v[index], second = v[index + 32];"),
        ("warp_sum(value) / 32", "warp_sum(value + second) / 64"),
        ("float difference = value - mean;", "float difference = value - mean, other = second - mean;"),
        ("warp_sum(difference * difference) / 32", "warp_sum(difference * difference + other * other) / 64"),
        (
            "    y[index] = fminf(fmaxf(result, low), high);",
            "    y[index] = fminf(fmaxf(result, low), high);\n"
            "    result = other * rsqrtf(variance + eps) * weight[channel + 32] + bias[channel + 32];\n"
            "    y[index + 32] = fminf(fmaxf(result, low), high);",
        ),
    )
    v, weight, bias, y = torch.randn(8, 256), torch.rand(256), torch.rand(256), torch.empty(8, 256)
    fgn.check(lambda: norm[8, (32, 4)](v, weight, bias, y, 4, 1e-5, -2.0, 2.0))
    expected = torch.nn.functional.group_norm(v, 4, weight, bias).clamp(-2, 2)
    torch.testing.assert_close(y, expected)


def other_chain(name):
    here = teach.setting(name)
    assert here.chain.name == name and name in str(here)


def own_chain_fused():
    here = teach.setting(NAME)
    assert len(teach.launches(OWN, here.machine_shape, "fused")) == 2
    comparison = fgn.compare(OWN, shape=(16, 32, 64, 4), versions=["tiled", "fused"])
    assert (comparison.ratio <= 2).all()


def rest_with_another_launch():
    here = teach.setting(NAME)
    slow = teach.rest_ms(here.chain, here.machine_shape, "tiled", here.machine, 4e-6)
    assert slow > teach.rest_ms(here.chain, here.machine_shape, "tiled", here.machine, 2e-6)


def half_the_arithmetic():
    machine = teach.setting(NAME).machine
    rates = {name: rate / 2 for name, rate in machine.product_operations_per_second.items()}
    half = replace(machine, product_operations_per_second=rates)
    axis = [128, 1024]
    assert (teach.fusion_curves(half, axis) < teach.fusion_curves(machine, axis)).all(axis=None)


def largest_products_first():
    promoted, small = kernel_of("06", "promoted"), 512
    x, w = cores.sample("cpu", small, 8)
    kind = cores.Pieces(2, torch.float16)
    kind.products.reverse()
    y = cores.promoted_product(promoted, x, w, kind, 64)
    torch.testing.assert_close(y, torch.nn.functional.linear(x, w))


def few_k():
    promoted = kernel_of("06", "promoted")
    x, w = cores.sample("cpu", 64, 8)
    assert cores.promoted_product(promoted, x, w, cores.TWO_HALVES, 16).isfinite().all()


def two_stages():
    few = ladder.timeline(replace(ladder.STEPS[4], stages=2), 6, 2)
    assert few.end.max() > ladder.timeline(ladder.STEPS[4], 6, 2).end.max()


def faster_l2():
    fast = ladder.timeline(ladder.STEPS[1], 6, 2, ladder.Model(l2_bytes_a_clock=60))
    assert fast.end.max() < ladder.timeline(ladder.STEPS[1], 6, 2).end.max()


def floors_of_one_row():
    here = teach.setting(NAME)
    teach.floors(here.chain, [(1, 8192, 8192, 256)], here.machine)


def predicted_with_8_lines():
    teach.predict(teach.setting(NAME), instructions=3, l1_lines=9)


def another_profile():
    try:
        profile = session.open_session("gemm_groupnorm_hardtanh", (65536, 512, 512), progress=False)
        assert len(profile.launches)
    except (ValueError, FileNotFoundError) as error:
        assert "recorded" in str(error)


def quizzes():
    for number in range(len(gallery.BUGS)):
        assert gallery.quiz(number)._repr_html_()


ON_A_GPU = "needs a GPU"
THINKING = "is for pencil and paper"

# An item for each in the notebook's list, in its order; a text says why there is nothing to run.
ITEMS = {
    "00": [
        lambda: fgn.simulator.source_view(lambda: gathered(1)),
        lambda: fgn.play(lambda: gathered(8)),
        lambda: other_chain("matmul_groupnorm_leakyrelu_sum"),
        lambda: fgn.source("gemm_1_naive"),
    ],
    "01": [floors_of_one_row, lambda: other_chain("gemm_groupnorm_hardtanh")],
    "02": [predicted_with_8_lines, lambda: fgn.source("group_norm_1_naive", "naive_normalise_kernel")],
    "03": [THINKING, THINKING],
    "04": [own_chain_fused, rest_with_another_launch, half_the_arithmetic],
    "05": [
        lambda: fgn.count(lambda: gathered(1, kernel_of("05", "gather", ("x[i * stride]", "x[i ^ 31]")))),
        lambda: (first_barrier_left_out(), sum_written_by_another_thread()),
        groups_of_64,
        quizzes,
    ],
    "06": [largest_products_first, few_k],
    "07": [faster_l2, two_stages, ON_A_GPU, ON_A_GPU],
    "08": [ON_A_GPU, ON_A_GPU, another_profile],
    "09": [
        lambda: model.predict(OWN, NARROW, "fused"),
        lambda: model.fusion_map(NAME, "ieee", fused="hopper"),
        lambda: model.fusion_map(NAME, "ieee", channels=256),
        ON_A_GPU,
    ],
    "10": [
        lambda: backward.step("matmul_groupnorm_leakyrelu_sum"),
        lambda: backward.moved(backward.step(NAME, (256, 64, 512, 16)), "fused"),
        lambda: backward.moved(backward.step(EIGHT_OPERATORS), "fused"),
    ],
    "11": [
        lambda: cudasim.predict(
            fgn.kernel(cell_of("11", "transpose_naive"), "transpose_naive")[(8, 8), (32, 8)],
            *(torch.ones(256, 256), torch.ones(256, 256), 256),
            gpu=["T4", "H200"],
        ),
        lambda: with_nvcc(cudasim.occupancy_plot)(
            fgn.kernel(cell_of("11", "softmax_in_registers"))[8, 256],
            *(torch.ones(64, 1024), torch.ones(64, 1024), 64, 1024),
        ),
        lambda: str(with_nvcc(fgn.kernel(cell_of("11", "softmax_in_registers")).sass)(gpu="H200")),
    ],
}


def tries(name) -> list[str]:
    text = next(cell.source for cell in cells(name) if cell.source.startswith("## Try"))
    return re.findall(r"^- ", text, re.M)


def test_every_notebook_has_its_items_here():
    names = {path.name[:2] for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert names == ITEMS.keys()
    assert {name: len(tries(name)) for name in ITEMS} == {name: len(items) for name, items in ITEMS.items()}


@pytest.mark.parametrize(
    "item",
    [pytest.param(item, id=f"{name}-{n}") for name, items in ITEMS.items() for n, item in enumerate(items)],
)
def test_item(item):
    if isinstance(item, str):
        pytest.skip(item)
    item()


def test_a_machine_without_nvcc_goes_on_at_the_machine_code(monkeypatch, capsys):
    monkeypatch.setattr(machine_code, "find_nvcc", lambda: None)
    paths = sorted((ROOT / "notebooks").rglob("*.ipynb"))
    every = [cell for path in paths for cell in nbformat.read(path, as_version=4).cells]
    showing = [cell.source for cell in every if cell.cell_type == "code" and ".sass(" in cell.source]
    assert len(showing) == 1
    kernel = fgn.kernel(cell_of("11", "sum_by_warp"), "sum_by_warp")
    exec(showing[0], {"cudasim": cudasim, "sum_by_warp": kernel})
    assert "pip install cudasim[nvcc]" in capsys.readouterr().out


def test_every_notebook_says_what_it_needs_and_where_to_go_on():
    paths = sorted((ROOT / "notebooks").glob("*.ipynb"))
    overview = "".join(cell.source for cell in cells("00"))
    for path, following in zip(paths, [*paths[1:], None], strict=True):
        sources = [cell.source for cell in nbformat.read(path, as_version=4).cells]
        assert all(words in sources[0] for words in ("*You need:*", "*Time:*", "*Afterwards you can*")), (
            path.name
        )
        assert any(source.startswith("## Recap") and source.count("<details>") >= 3 for source in sources)
        assert "**Next:**" in sources[-1] and (following is None or following.name in sources[-1])
        assert path.name.startswith("00") or path.name in overview
