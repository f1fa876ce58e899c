"""Reports of the puzzles about profiles: what each part of a GPU needs for the learner's initial kernel, and
what each of its lines asks for. They are predictions for launches that fill the GPU."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from matplotlib.figure import Figure

from cudasim.predicting.prediction import Prediction, predict
from fgn.plot.figures import LARGEST_LIMIT_COLOUR, LIMIT_COLOUR, new_figure
from fgn.puzzles.definition import Task
from fgn.puzzles.ranking import LARGE, PREDICTED_FOR, large_case, launches_of

_MOST_WORDS = 72  # of a line of source


def _rows_of_lines(prediction: Prediction) -> list[tuple[str, ...]]:
    """Rows of the table: line, part of the clocks of a warp alone, part of all requests, sectors for a
    request, wavefronts for one of shared memory, active threads, text."""
    totals: dict[int, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for instruction in prediction.sample.instructions:
        of = totals[instruction.place.line]
        where = "global" if instruction.space == "global" else "shared"
        of[f"{where} requests"] += instruction.requests
        of["requests"] += instruction.requests
        of["threads"] += instruction.threads
        of["sectors"] += instruction.sectors
        of["wavefronts"] += instruction.wavefronts

    all_requests = sum(of["requests"] for of in totals.values())

    def ratio(of: dict[str, int], part: str, whole: str) -> str:
        return f"{of[part] / of[whole]:.3g}" if of[whole] else ""

    rows = []
    for row in prediction.lines.itertuples():
        of = totals[row.line]
        if row.clocks < 0.005 and not of["requests"]:
            continue
        rows.append(
            (
                str(row.line),
                f"{row.clocks:.0%}",
                f"{of['requests'] / all_requests:.0%}" if of["requests"] else "",
                ratio(of, "sectors", "global requests"),
                ratio(of, "wavefronts", "shared requests"),
                ratio(of, "threads", "requests"),
                row.source[:_MOST_WORDS],
            )
        )
    return rows


def _draw_parts(axis, prediction: Prediction) -> None:
    terms = prediction.on[0].terms
    pipes = {
        name: of for name, of in terms.busy.items() if name not in ("issue slots", "L1 and shared memory")
    }
    parts = {
        "DRAM": terms.dram,
        "L2": terms.l2,
        "L1 and shared memory": terms.busy.get("L1 and shared memory", 0.0),
        "instructions: issue slots": terms.busy.get("issue slots", 0.0),
        "instructions: the busiest pipe": max(pipes.values(), default=0.0),
        "one warp alone, with its waiting": terms.alone,
    }
    values = np.array([float(of) for of in parts.values()]) * 1e6
    colours = [LARGEST_LIMIT_COLOUR if of == values.max() else LIMIT_COLOUR for of in values]
    axis.barh(list(parts), values, color=colours)
    axis.bar_label(axis.containers[0], labels=[f"{of:,.1f}" for of in values], fontsize=8, padding=2)
    axis.invert_yaxis()
    axis.set_xlim(0, values.max() * 1.2)
    axis.tick_params(labelsize=8)
    axis.set_xlabel("µs, if only this took time", fontsize=8)


def _draw_lines(axis, prediction: Prediction) -> None:
    columns = (0.0, 0.05, 0.115, 0.19, 0.265, 0.36, 0.43)
    words = ("line", "clocks", "requests", "sectors/\nrequest", "wavefronts/\nrequest", "threads\nactive", "")
    rows = _rows_of_lines(prediction)
    axis.set(xlim=(0, 1), ylim=(len(rows), -1.4))
    axis.set_axis_off()
    for at, word in zip(columns, words, strict=True):
        axis.text(at, -0.6, word, fontsize=7, va="center", ha="left")
    for number, row in enumerate(rows):
        for at, word in zip(columns, row, strict=True):
            style = {"family": "monospace"} if at == columns[-1] else {}
            axis.text(at, number + 0.3, word, fontsize=7.5, va="center", ha="left", parse_math=False, **style)


def report(task: Task) -> Figure:
    """The report of a puzzle: the parts of the GPU and the lines, for each launch."""
    sizes = LARGE[task.name]
    inputs, outputs = large_case(task, sizes)
    made = launches_of(task, task.skeleton(), {**inputs, **outputs}, sizes)
    found = [predict(bound, *arguments, gpu=PREDICTED_FOR, seconds=1.0) for bound, arguments in made]
    heights = [max(6, len(_rows_of_lines(each)) + 3) for each in found]
    figure, axes = new_figure(
        12.5,
        0.24 * sum(heights) + 0.5 * len(found),
        len(found),
        2,
        width_ratios=(1, 2.4),
        height_ratios=heights,
    )
    for (left, right), each in zip(axes, found, strict=True):
        _draw_parts(left, each)
        _draw_lines(right, each)
        blocks, time = f"{each.sample.total:,} blocks", f"{each.seconds * 1e6:,.0f} µs"
        how = f"{each.kernel}, {blocks} on an {PREDICTED_FOR}: {time}, predicted"
        left.set_title(how, fontsize=9, loc="left")
    return figure
