"""What limits a rung's matrix product: counts against a GPU's rates, as cycles and times.

The unit is a *step*: one multiply-add of a warp, 32 products. A notebook counts what a rung asks of a
multiprocessor for each step; `predict()` turns that into cycles and times.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from cudasim.counting.apart import tiles
from fgn.measure.floors import floor
from fgn.measure.machine import MOST_LANES
from fgn.problem import WARP
from fgn.teaching.settings import Setting

# The peak of one multiprocessor per cycle, on every GPU since compute capability 7.5.
INSTRUCTIONS_A_CYCLE = 4  # of a warp each; one for each of its four schedulers
SHARED_WAVEFRONTS_A_CYCLE = 1  # of up to 128 bytes, one word from each of the 32 banks
L1_LINES_A_CYCLE = 1  # of 128 bytes, looked up in the L1 cache


def predict(
    setting: Setting, *, instructions: float, l1_lines: float = 0.0, shared_wavefronts: float = 0.0
) -> pd.DataFrame:
    """The minimum time of a rung's matrix product, by each of its limits.

    Arguments for each step, the multiply-add of one warp: instructions, including the multiply-add itself;
    l1_lines, 128-byte lines looked up in the L1 cache; shared_wavefronts, passes over shared memory.

    One row for each limit: "for each step"; "most in a cycle" (of one multiprocessor); "cycles", for each
    step; "ms" of the whole product, if `setting.machine` is known, and then also a row for the bytes that
    must cross the memory bus at least once. Everything can overlap, so the prediction is the largest.
    """
    machine = setting.machine
    lanes = machine.lanes if machine else MOST_LANES
    rows = {
        "multiply-adds": (1.0, lanes / WARP),
        "instructions": (instructions, INSTRUCTIONS_A_CYCLE),
        "shared wavefronts": (shared_wavefronts, SHARED_WAVEFRONTS_A_CYCLE),
        "L1 lines": (l1_lines, L1_LINES_A_CYCLE),
    }
    if machine is not None and machine.clock_hz is not None:
        least = floor(setting.chain, setting.machine_shape, machine)
        cycles_of_all = machine.multiprocessors * machine.clock_hz
        rows["memory bytes"] = (
            least.bytes / setting.steps,
            machine.dram_bytes_per_second / cycles_of_all,
        )
    frame = pd.DataFrame.from_dict(rows, orient="index", columns=["for each step", "most in a cycle"])
    frame["cycles"] = frame["for each step"] / frame["most in a cycle"]
    frame["ms"] = frame.cycles * setting.steps / cycles_of_all * 1e3 if "memory bytes" in rows else np.nan
    return frame.rename_axis("limit")


def explain(prediction: pd.DataFrame, measured: dict[str, float]) -> pd.DataFrame:
    """How much of each measured time every limit accounts for, in percent.

    Near 100: the rung hits that limit. All far below: something was not counted, or the rung waits. Above
    100: more was counted than is done.
    """
    frame = prediction[["ms"]].rename(columns={"ms": "predicted ms"})
    for name, ms in measured.items():
        frame[f"% of {ms:.3g} ms ({name})"] = 100 * prediction.ms / ms
    return frame


def bandwidth(setting: Setting, bytes_for_each_step: float, measured: dict[str, float]) -> pd.DataFrame:
    """A rung's bytes per second at some level, beside the copy bandwidth of memory, in TB/s."""
    moved = bytes_for_each_step * setting.steps
    rates = {name: moved / (ms * 1e-3) for name, ms in measured.items()}
    if setting.machine is not None:
        rates["copying in memory, for comparison"] = setting.machine.dram_bytes_per_second
    return pd.DataFrame({"TB/s": pd.Series(rates, dtype=float) / 1e12})


def k_tile_cycles(
    setting: Setting,
    prediction: pd.DataFrame,
    measured: dict[str, float],
    *,
    tile: int,
    tile_k: int,
    blocks: int,
) -> pd.DataFrame:
    """The cycles that a multiprocessor spends on one k tile of its tiles: multiplying, and in all.

    tile: a block computes tile x tile outputs, tile_k products of each in a k tile. blocks: how many a
    multiprocessor holds at once. In the rest of the cycles it waits.
    """
    machine = setting.machine
    if machine is None or machine.clock_hz is None:
        return pd.DataFrame(columns=["multiplying", "in all", "waiting, % of all"])
    batch, in_features, out_features, _ = setting.machine_shape
    rounds = tiles(tiles(batch, tile) * tiles(out_features, tile), blocks * machine.multiprocessors)
    busy = prediction.cycles.max() * blocks * tile * tile * tile_k / WARP
    rows = {}
    for name, ms in measured.items():
        cycles = ms * 1e-3 * machine.clock_hz / (rounds * tiles(in_features, tile_k))
        rows[name] = {"multiplying": busy, "in all": cycles, "waiting, % of all": 100 * (1 - busy / cycles)}
    return pd.DataFrame.from_dict(
        rows, orient="index", columns=["multiplying", "in all", "waiting, % of all"]
    )
