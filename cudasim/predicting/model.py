"""The time of a launch on a GPU: a bottleneck model with latency, on a page.

    a multiprocessor's time   rounds of the blocks that it holds at once. A round takes the longest of
                                the busiest part    warp instructions of its blocks x clocks of each pipe
                                one warp alone      its instructions in order, each after its operands
                              and a little more where the two are close (a norm of the two).
    L2's, DRAM's time         bytes / bytes per second; the longer of the two, for they pass bytes on
    the launch                the processors' and the memory's time, likewise, and what a launch costs that
                              does nothing

What is not modelled: the order in which warps reach DRAM's pages, the halves of L2 and of the network to it,
instruction caches, clocks that fall under a heavy load, blocks of a launch that do different work.
Terms and where they come from: S. Williams et al., Roofline (2009); S. Hong, H. Kim, An analytical model for
a GPU (2009), for warps that wait; J. Little (1961), for bytes in flight; and the cards' sources for figures.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from cudasim.counting.counted import Instruction
from cudasim.predicting.caches import Sharing, Traffic, traffic_of
from cudasim.predicting.cards import Card
from cudasim.predicting.flow import Flow, line_of
from cudasim.predicting.machine_code import MachineCode, MachineInstruction
from cudasim.predicting.occupancy import Occupancy
from cudasim.predicting.pace import clocks_of_blocks
from cudasim.predicting.pipes import busy_of
from cudasim.predicting.sampling import Sample


@dataclass(frozen=True)
class Efficiencies:
    """What the model cannot know from cards and counts, fitted to timed launches of public kernels
    (lab/speed.py, the half for calibration; docs: cudasim/docs/predicting.md).

    norm: of terms that are close to each other. issue, pipes, lsu: the part of its issue slots, of its pipes
    and of that for loads and stores that a multiprocessor uses at best. line, fill: clocks of L1 for a line
    of 128 bytes, and for a sector that it has not. block: clocks that starting a block costs. mma: the part
    of the tensor cores' rate that mma.sync has. atomic: lanes that L2 updates per clock where a request meets
    one sector. partial: what writing a part of a sector costs more than writing all of it. l2, dram: parts of
    the card's bytes per second. latency, dram_latency: factors of the cards' latencies, which are those of an
    idle GPU. error: by which factor times are off, for two launches of three.
    """

    norm: float = 2.3
    issue: float = 0.96
    pipes: float = 0.95
    lsu: float = 0.835
    line: float = 1.0
    fill: float = 0.2
    block: float = 475.0
    mma: float = 0.62
    atomic: float = 2.66
    partial: float = 1.94
    l2: float = 1.0
    dram: float = 1.0
    latency: float = 1.07
    dram_latency: float = 1.4
    error: float = 1.25
    error_without_nvcc: float = 2.0


EFFICIENCIES = Efficiencies()


@dataclass(frozen=True)
class Terms:
    """What the time consists of. Seconds of the launch if nothing but that took time: busy, by part of the
    multiprocessors; alone, what one warp after the other takes by itself; l2; dram; launch.
    """

    busy: dict[str, float]
    alone: float
    l2: float
    dram: float
    launch: float
    seconds: float
    rounds: float
    traffic: Traffic
    instructions: float  # of warps
    clocks_alone: float
    units: dict[str, float] = field(default_factory=dict)  # part of its peak that each unit of ncu's reaches
    clocks_of_blocks: np.ndarray | None = None  # of a warp alone, by block of the code


def _norm(power: float, *values: float) -> float:
    most = max(values)
    return most * sum((value / most) ** power for value in values) ** (1 / power) if most > 0 else 0.0


def _load_latencies(
    sample: Sample, traffic: Traffic, card: Card, files: set[str], factor: float, dram_factor: float
):
    """A function: the clocks of a load of global memory, by its line's hits in L1: those of the load there
    that misses most, for which the others wait."""
    loads = [one for one in sample.instructions if (one.space, one.operation) == ("global", "ld")]
    most: dict[tuple[str, int], int] = defaultdict(int)
    missing: dict[tuple[str, int], float] = defaultdict(float)
    for one in loads:
        key = (one.place.file, one.place.line)
        most[key] = max(most[key], one.requests)
    for one in loads:
        key = (one.place.file, one.place.line)
        if one.requests > most[key] / 4:
            missing[key] = max(missing[key], min(1.0, one.missed / one.requests))
    from_dram = min(1.0, traffic.dram_read / traffic.l2_read) if traffic.l2_read else 0.0
    latency = card.latency

    def of(instruction: MachineInstruction) -> float:
        part = missing.get(line_of(instruction, files) or ("", 0), 1.0)
        beyond = latency["l2"] - latency["l1"]
        beyond += from_dram * (latency["dram"] * dram_factor - latency["l2"])
        return latency["l1"] + part * beyond * factor

    return of


def _wide_bytes(code: MachineCode, flow: Flow, files: set[str]) -> dict[tuple[str, int], tuple[float, float]]:
    """By line, the bytes of a thread that its loads of shared memory move four and sixteen at a time: the
    compiler makes one wide load of several narrow ones. All bytes, and those of wide loads."""
    found: dict[tuple[str, int], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
    for block in code.blocks:
        for instruction in block.instructions:
            where = line_of(instruction, files)
            if instruction.name == "LDS" and where and flow.runs[block.index] > 0:
                moved = flow.runs[block.index] * instruction.bytes
                every, wide = found[where]
                found[where] = every + moved, wide + (moved if instruction.bytes > 4 else 0.0)
    return found


def _memory_clocks(
    code: MachineCode, flow: Flow, sample: Sample, card: Card, fitted: Efficiencies, files: set[str]
) -> dict[str, float]:
    """Clocks of the multiprocessors' L1 and shared memory, over all blocks of the sample."""
    shared = l1 = 0.0
    loads: dict[tuple[str, int], list[Instruction]] = defaultdict(list)
    for one in sample.instructions:
        if one.space == "shared" and one.operation == "ld" and one.bytes == 4:
            loads[one.place.file, one.place.line].append(one)
        elif one.space == "shared":
            # Lanes that update one address of shared memory do so one after another.
            again = one.threads / one.addresses if one.operation == "atom" and one.addresses else 1.0
            shared += one.wavefronts * again
        else:
            l1 += max(32 * one.sectors / card.l1_bytes_per_clock, fitted.line * one.lines)
            l1 += fitted.fill * one.missed
    wide = _wide_bytes(code, flow, files)
    for where, of_line in loads.items():
        every, moved_wide = wide.get(where, (1.0, 0.0))
        left = moved_wide / every * sum(one.requests for one in of_line) if every else 0.0
        # What few lanes read apart, as a broadcast, a wide load reads as quickly: four for one.
        for one in sorted(of_line, key=lambda one: one.addresses / max(1, one.requests)):
            merged = min(float(one.requests), left)
            left -= merged
            apart = one.addresses / max(1, one.requests)
            each = one.wavefronts / max(1, one.requests)
            quicker = max(1.0, 4 * apart * 4 / 128) / 4
            shared += (one.requests - merged) * each + merged * each * min(1.0, quicker)
    return {"shared memory": shared * 128 / card.shared_bytes_per_clock, "L1": l1}


def _atomic_clocks(sample: Sample, traffic: Traffic, fitted: Efficiencies) -> float:
    """Clocks of L2 for atomics of global memory: its slices update a place one lane after another, and lanes
    of a warp that meet at a place mostly meet other warps there."""
    chosen = [one for one in sample.instructions if (one.space, one.operation) == ("global", "atom")]
    clocks = 0.0
    for one in chosen:
        spread = one.sectors / max(1, one.requests)  # different sectors of a request
        at_once = max(1.0, min(_L2_SLICES, traffic.updated, fitted.atomic * spread**2))
        clocks += one.sectors * one.threads / max(1, one.addresses) * sample.scale / at_once
    return clocks


_L2_SLICES = 96.0  # of an H100; others have about as many for their size


def _units(
    busy: dict[str, float], l2: float, dram: float, seconds: float, fitted: Efficiencies
) -> dict[str, float]:
    """The part of its peak that each unit of ncu's speed-of-light page reaches. L1 has the requests of the
    LSU in it, and on cards whose L2 has two halves what goes from one to the other counts in both."""
    peaks = {"issue slots": fitted.issue, "LSU": fitted.lsu}
    parts = {name: of * peaks.get(name, fitted.pipes) / seconds for name, of in busy.items()}
    l1 = parts.pop("L1 and shared memory")
    requests = parts.pop("LSU", 0.0)
    return {
        "compute": max([requests, *parts.values()]),
        "L1": max(l1, 1.06 * requests),
        "L2": _BOTH_HALVES * l2 / seconds,
        "DRAM": dram / seconds,
    }


_BOTH_HALVES = 1.37  # ncu's L2 throughput of streams on an H200, by their bytes


def _busiest(code: MachineCode, sample: Sample, files: set[str]) -> tuple[np.ndarray, np.ndarray]:
    """By how much oftener the busiest warp of a thread block, and of all, runs each block of the code than
    warps do on average."""
    by_line = {(place.file, place.line): of for place, of in sample.passed.items()}
    warps = sample.warps * len(sample.blocks)
    in_block, in_launch = np.ones(len(code.blocks)), np.ones(len(code.blocks))
    for block in code.blocks:
        own = [by_line[where] for i in block.instructions if (where := line_of(i, files)) in by_line]
        if own:
            most = max(own, key=lambda of: of.warps)
            in_block[block.index] = max(1.0, most.slowest * sample.warps / max(1, most.warps))
            in_launch[block.index] = max(in_block[block.index], most.most * warps / max(1, most.warps))
    return in_block, in_launch


def predict_terms(
    code: MachineCode,
    flow: Flow,
    sample: Sample,
    sharing: Sharing,
    card: Card,
    held: Occupancy,
    files: set[str],
    fitted: Efficiencies = EFFICIENCIES,
) -> Terms:
    """The terms of a launch whose blocks the card can hold."""
    blocks_at_once = held.blocks * card.multiprocessors
    traffic = traffic_of(sample, sharing, card, blocks_at_once)
    loads = _load_latencies(sample, traffic, card, files, fitted.latency, fitted.dram_latency)
    alone = clocks_of_blocks(code.blocks, flow.runs, card, loads, fitted.mma)
    ran = len(sample.blocks)
    warps = ran * sample.warps
    in_block, in_launch = _busiest(code, sample, files)
    clocks_alone = float((flow.runs * alone * in_block).sum()) / warps + fitted.block
    clocks_longest = float((flow.runs * alone * in_launch).sum()) / warps + fitted.block
    busy: dict[str, float] = defaultdict(float)
    instructions = 0.0
    for block in code.blocks:
        for instruction in block.instructions if flow.runs[block.index] > 0 else ():
            pipe, clocks = busy_of(instruction, card, fitted.mma)
            instructions += flow.runs[block.index]
            busy[pipe] += flow.runs[block.index] * clocks
    busy.pop("control", None)
    # Multiply-adds of integers run on the pipe of those of floats, on its one half where it has two.
    if "imad" in busy or "fp32" in busy:
        both = busy["fp32"] + busy["imad"] * card.lanes["imad"] / card.lanes["fp32"]
        busy["FMA"] = max(both, busy.pop("imad", 0.0))
        busy.pop("fp32", None)
    names = {"int32": "ALU", "special": "XU", "convert": "XU", "popc": "XU", "lsu": "LSU", "shuffle": "LSU",
             "fp64": "FP64", "fp16": "FP16", "convert64": "XU", "shift": "ALU"}  # fmt: skip
    merged: dict[str, float] = defaultdict(float)
    for name, clocks in busy.items():
        merged[names.get(name, name)] += clocks
    busy = {name: clocks / (fitted.lsu if name == "LSU" else fitted.pipes) for name, clocks in merged.items()}
    busy["issue slots"] = instructions / card.schedulers / fitted.issue
    memory = _memory_clocks(code, flow, sample, card, fitted, files)
    busy["L1 and shared memory"] = sum(memory.values()) / fitted.pipes

    # Rounds of the blocks that a multiprocessor holds; the last one may hold fewer.
    each = sample.total / card.multiprocessors
    most = math.ceil(each)
    whole, rest = divmod(most, held.blocks)
    of_block = {name: clocks / ran for name, clocks in busy.items()}
    worst = max(of_block.values())

    def round_of(blocks: float) -> float:
        # Blocks of one warp in four keep only one of the four parts busy.
        parts = min(1.0, blocks * sample.warps / card.schedulers)
        return _norm(fitted.norm, clocks_alone, blocks * worst / parts)

    clocks = whole * round_of(held.blocks) + (round_of(rest) if rest else 0.0)
    if whole and each > 4 * held.blocks:
        clocks = each / held.blocks * round_of(held.blocks)  # many rounds: they overlap
    on_processors = max(clocks, clocks_longest) / card.clock_hz
    l2_bytes = traffic.l2_read + traffic.l2_written * (1 + fitted.partial * (1 - traffic.filled))
    l2 = l2_bytes / (card.l2_bandwidth * fitted.l2) + _atomic_clocks(sample, traffic, fitted) / card.clock_hz
    dram = (traffic.dram_read + traffic.dram_written) / (card.dram_bandwidth * fitted.dram)
    running = _norm(fitted.norm, on_processors, max(l2, dram))  # what goes to DRAM goes through L2 meanwhile
    seconds = running + card.launch_seconds
    in_all = {name: clocks * each / card.clock_hz for name, clocks in of_block.items()}
    rounds = each / held.blocks
    units = _units(in_all, l2, dram * card.dram_efficiency, seconds, fitted)
    return Terms(
        in_all,
        clocks_alone * math.ceil(rounds) / card.clock_hz,
        l2,
        dram,
        card.launch_seconds,
        seconds,
        rounds,
        traffic,
        instructions * sample.scale,
        clocks_alone,
        units,
        alone,
    )
