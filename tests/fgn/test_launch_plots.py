"""The plots of launches: what they draw, that it can be read, and what they say when they cannot."""

import itertools

import matplotlib.colors
import numpy as np
import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

import fgn
from cudasim.counting import metrics
from fgn.chains import CHAINS, Shape
from fgn.chains import problem as problem_at
from fgn.functional import PRODUCT
from fgn.measure.benchmark import COMPILED, EAGER
from fgn.plans import DEVICES, plan
from fgn.plot import launches as launch_plots
from fgn.plot import roofline, style
from fgn.problem import Problem
from fgn.profiling import launch_words, launches
from fgn.profiling import records as profile_records
from fgn.profiling.launch_words import PARTS, part_of
from fgn.profiling.profiler import PROBLEM, SIMULATOR

RECORD = profile_records.read("h200")


def recorded(**wanted):
    rows = RECORD.launches
    for column, value in wanted.items():
        rows = rows[rows[column] == value]
    rows = rows.reset_index(drop=True)
    rows.attrs = RECORD.launches.attrs
    return rows


def problems():
    return list(RECORD.launches[PROBLEM].drop_duplicates().itertuples(index=False))


NARROW = recorded(chain="gemm_biasadd_hardtanh_mish_groupnorm", batch=65536, precision="ieee")


@pytest.fixture(scope="module")
def simulated():
    return fgn.profile("gemm_groupnorm_hardtanh", device="cpu", shape=(8, 64, 64, 4))


def texts_drawn(figure):
    """The texts of a figure with their places in pixels, as they are drawn."""
    drawn = []
    original = Text.draw

    def draw(self, renderer, *arguments, **options):
        if self.get_visible() and self.get_text().strip():
            # Of an annotation the text alone, without its arrow.
            drawn.append((self.get_text(), Text.get_window_extent(self, renderer)))
        return original(self, renderer, *arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Text, "draw", draw)
        FigureCanvasAgg(figure).draw()
    return drawn


def assert_legible(figure):
    drawn = texts_drawn(figure)
    assert drawn
    width, height = figure.canvas.get_width_height()
    for text, box in drawn:
        inside = box.x0 >= -1 and box.y0 >= -1 and box.x1 <= width + 1 and box.y1 <= height + 1
        assert inside, f"{text!r} leaves the figure: {box}"
    for (one, a), (other, b) in itertools.combinations(drawn, 2):
        across = min(a.x1, b.x1) - max(a.x0, b.x0)
        down = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert across <= 1 or down <= 1, f"{one!r} and {other!r} overlap"


# The chain with the longest name has the least room.
@pytest.mark.parametrize(
    "problem",
    [problem for problem in problems() if problem.chain == NARROW.chain[0]],
    ids=lambda problem: f"{problem.batch}-{problem.precision}",
)
def test_recorded_profiles_are_drawn_without_overlap(problem):
    rows = recorded(**dict(zip(PROBLEM, problem, strict=True)))
    figures, reasons = launch_plots.draw(rows, RECORD.machine)
    assert not reasons and len(figures) == 7
    for figure in figures.values():
        assert_legible(figure)


def test_simulated_profiles_are_drawn_as_far_as_they_go(simulated):
    figures, reasons = launch_plots.draw(simulated)
    assert set(figures) == {"dram", "memory"}
    assert set(reasons) == {"roofline", "time", "stalls", "pipes", "occupancy"}
    for figure in figures.values():
        assert_legible(figure)
    assert f"needs the metric {metrics.TIME}, which {SIMULATOR} lacks" in reasons["time"]
    assert "not\ncounted" in [text for text, _ in texts_drawn(figures["memory"])]


def test_every_axis_has_a_label_with_a_unit():
    figures, _ = launch_plots.draw(NARROW, RECORD.machine)
    labels = {name: [axes.get_xlabel() for axes in figure.axes] for name, figure in figures.items()}
    assert "(ms)" in labels["time"][0] and "(MB)" in labels["dram"][0] and "(%)" in labels["stalls"][0]
    assert all("FLOP/B" in label for label in labels["roofline"]) and "%" in labels["occupancy"][0]
    assert "%" in figures["pipes"].axes[1].get_ylabel()


def test_bars_are_as_long_as_the_launches_took():
    axes = launch_plots.bars(NARROW).axes[0]
    assert [label.get_text() for label in axes.get_yticklabels()] == launches.heads(NARROW).index.tolist()
    for position, subject in enumerate(launches.heads(NARROW).index):
        rows = NARROW[NARROW.subject == subject]
        took = rows[metrics.TIME].sum() / 1e6
        # A bar's middle is at the number of its version.
        pieces = [
            bar.get_width() for bar in axes.patches if round(bar.get_y() + bar.get_height() / 2) == position
        ]
        if sum(pieces) < 0.99 * took:
            assert max(axes.get_xlim()) < took, "only what does not fit is cut"
        else:
            assert sum(pieces) == pytest.approx(took) and len(pieces) == len(rows)


def test_the_shares_of_stalls_are_all_of_the_time():
    axes = launch_plots.stalls(NARROW).axes[0]
    ends = {}
    for bar in axes.patches:
        row = round(bar.get_y() + bar.get_height() / 2)
        ends[row] = max(ends.get(row, 0), bar.get_x() + bar.get_width())
    assert list(ends.values()) == pytest.approx([100] * NARROW.subject.nunique(), abs=0.6)


def test_operations_are_those_of_the_problem():
    work = launches.operations(NARROW)
    main = launches.heads(NARROW)
    for subject, launch in main.launch.items():
        row = NARROW.index[(NARROW.subject == subject) & (NARROW.launch == launch)]
        assert work[row].item() == 2 * 65536 * 512 * 512
    # One addition and one comparison more or less for each element of a pointwise launch, not millions.
    pointwise = work[(NARROW.subject == "naive") & (NARROW.operator == "add_channel")].item()
    assert 0 < pointwise <= 4 * 65536 * 512


def test_nothing_is_above_the_roofs_that_were_measured():
    machine = RECORD.machine
    for problem in problems():
        rows = recorded(**dict(zip(PROBLEM, problem, strict=True)))
        rate = launches.operations(rows) / (rows[metrics.TIME] * 1e-9)
        top = max(roofline._tops(problem.precision, machine).values())
        assert rate.max() <= 1.05 * top
        moved = launches.level_bytes(rows).div(rows[metrics.TIME] * 1e-9, axis=0)
        assert moved["DRAM"].max() <= 1.15 * machine.dram_bytes_per_second


def test_flows_of_the_naive_product_are_what_it_asks_for():
    launch = NARROW[(NARROW.subject == "naive") & (NARROW.launch == 0)].iloc[0]
    flows = launch_plots.flows(launch)
    batch, columns, k = 65536, 512, 512
    # A load of a warp asks for 128 bytes of the weight and, as all lanes want the same, for 4 of x.
    asked = batch * columns * k / 32 * (128 + 4) + 4 * batch * columns
    # Seven digits are recorded.
    assert flows["L1", "registers"] == pytest.approx(asked, rel=1e-6)
    assert flows["registers", "L1"] == pytest.approx(4 * batch * columns, rel=1e-6)
    assert flows["shared", "registers"] == 0 and flows["L1", "shared"] == 0


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: launch_plots.bars(NARROW, "joules"), "quantity: expected one of time, dram, got 'joules'"),
        (lambda: launch_plots.bars(RECORD.launches), "launches: bars.* expected those of one problem"),
        (lambda: launch_plots.stalls(NARROW.iloc[:0]), "launches: stalls.* expected some, got none"),
        (lambda: launch_plots.memory_chart(NARROW), "launches: memory_chart.* expected 1 to 4, got"),
        (
            lambda: launch_plots.predicted_measured(pd.DataFrame({"predicted": [1.0]}), "ms"),
            "frame: expected the columns predicted, measured and subject, got no measured",
        ),
    ],
    ids=["quantity", "problems", "empty", "charts", "columns"],
)
def test_errors_name_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_predicted_against_measured():
    times = NARROW.groupby("subject", sort=False)[metrics.TIME].sum() / 1e6
    frame = pd.DataFrame(
        {"subject": times.index, "measured": times.to_numpy(), "predicted": 1.1 * times.to_numpy()}
    )
    figure = launch_plots.predicted_measured(frame, "ms", "ten percent more than measured")
    assert_legible(figure)
    assert figure.axes[0].get_xlabel() == "measured (ms, log scale)"


# ------------------------------------------------------------------------------------------------------------
# Colours

# How people without one kind of cones see linear RGB (Machado, Oliveira and Fernandes 2009, severity 1).
SEEN_BY = {
    "all cones": np.eye(3),
    "no red cones": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "no green cones": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def lab(colour, seen_by):
    """CIE L*a*b* of a colour as somebody sees it."""
    rgb = np.array(matplotlib.colors.to_rgb(colour))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    x, y, z = TO_XYZ @ np.clip(SEEN_BY[seen_by] @ linear, 0, 1) / (0.9505, 1.0, 1.089)
    fx, fy, fz = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (x, y, z))
    return np.array([116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)])


@pytest.mark.parametrize("seen_by", SEEN_BY)
@pytest.mark.parametrize(
    "colours",
    [
        launch_plots.PARTS,
        launch_plots.REASON_COLOURS,
        {"in": launch_plots.INWARDS, "out": launch_plots.OUTWARDS},
    ],
    ids=["parts", "reasons", "flows"],
)
def test_colours_differ_for_colour_blind_readers(colours, seen_by):
    for one, other in itertools.combinations(colours, 2):
        apart = np.linalg.norm(lab(colours[one], seen_by) - lab(colours[other], seen_by))
        assert apart > 10, f"{one} and {other}"


def test_a_version_has_the_same_colour_everywhere():
    figures, _ = launch_plots.draw(NARROW, RECORD.machine)
    for subject in ("naive", "tiled", EAGER, COMPILED):
        expected = matplotlib.colors.to_hex(style.colour(subject))
        bars = figures["occupancy"].axes[0].patches
        assert expected in [matplotlib.colors.to_hex(bar.get_facecolor()) for bar in bars]
        for name in ("time", "stalls", "pipes"):
            squares = [line.get_color() for line in figures[name].axes[0].lines if line.get_marker() == "s"]
            assert expected in [matplotlib.colors.to_hex(square) for square in squares]


def test_kernels_with_the_same_shared_memory_have_the_same_limit():
    heads = launch_plots.heads(NARROW)
    allowed = launch_plots.blocks_by_shared_memory(heads)
    counted = heads[metrics.OCCUPANCY_LIMITS["shared memory"]]
    asked = heads[metrics.SHARED_STATIC] + heads[metrics.SHARED_DYNAMIC]
    assert counted["register_tile"] != counted["vectorized"] and asked["register_tile"] == asked["vectorized"]
    assert allowed["register_tile"] == allowed["vectorized"] >= counted["register_tile"]
    assert (allowed >= counted).all() and (allowed[asked == 0] == counted[asked == 0]).all()
    # What only one block fits into, only one block fits into.
    assert allowed["hopper"] == counted["hopper"] == 1


# ------------------------------------------------------------------------------------------------------------
# Words


@pytest.mark.parametrize("name", CHAINS)
def test_words_for_launches_on_the_simulator(name):
    chain = CHAINS[name]
    launches = fgn.profile(name, device="cpu", shape=(8, 64, 64, 4))
    before, after = ([step.kind for step in steps] for steps in (chain.before, chain.after))
    words = {subject: list(rows.operator) for subject, rows in launches.groupby("subject")}
    assert words["naive"] == ["product", *before, "statistics", "normalise", *after]
    assert words["tiled"] == ["product", *before, "norm", *after]
    assert words["fused"] == [" + ".join(["product", *before]), " + ".join(["norm", *after])]
    assert words["one_kernel"] == [" + ".join(["product", *before, "norm", *after])]
    assert words["tensor_core"][0] == "halves of x" and words["tensor_core"][-1] == "float32 in reserve"
    assert sum(word.startswith("product") for word in words["tensor_core"]) == 1
    assert {part_of(word) for rows in words.values() for word in rows} <= set(PARTS)


@pytest.mark.parametrize(
    "version, precision, gpu, batch, groups, words",
    [
        (
            "few_rows",
            "bf16",
            "A100",
            64,
            2,
            ["product, partial sums", "sums + add_channel + hardtanh + mish + norm"],
        ),
        ("tensor_core", "bf16", "A100", 64, 1, ["product + add_channel + hardtanh + mish", "norm"]),
        (
            "hopper",
            "ieee",
            "H200",
            4096,
            4,
            [
                *("halves of x", "product + add_channel + hardtanh + mish + norm"),
                *("float32 in reserve", "float32 in reserve"),
            ],
        ),
        (
            "hopper",
            "ieee",
            "H200",
            64,
            4,
            [
                *("halves of x", "product, partial sums", "sums + add_channel + hardtanh + mish + norm"),
                *("float32 in reserve", "float32 in reserve"),
            ],
        ),
    ],
    ids=["few rows", "two launches", "reserve", "split k"],
)
def test_words_for_launches_on_tensor_cores(version, precision, gpu, batch, groups, words):
    chain, shape = problem_at("gemm_biasadd_hardtanh_mish_groupnorm", (batch, 512, 1024, groups))
    kernels = [launch.kernel for launch in plan(chain, shape, version, precision, gpu).launches]
    of_call = Problem(chain, shape, precision)
    assert launch_words.ours(of_call, version, kernels, DEVICES[gpu]) == words
    assert launch_words.ours(of_call, version, kernels[1:], DEVICES[gpu]) == kernels[1:]


def test_words_for_the_product_alone():
    product = Problem(PRODUCT, Shape(64, 512, 1024, 0))
    assert launch_words.ours(product, "naive", ["naive_gemm_kernel"]) == ["product"]


def test_words_for_recorded_launches():
    operators = NARROW.groupby("subject").operator.agg(list)
    assert operators[EAGER] == ["product", "add", "hardtanh", "mish", "group_norm", "group_norm"]
    assert operators[COMPILED][0] == "product"
    assert {part_of(word) for word in operators[COMPILED][1:]} == {"norm"}
