"""The time of a launch on a GPU: a bottleneck model with latency, on a page.

    a multiprocessor's time   rounds of the blocks that it holds at once. A round takes the longest of
                                the busiest pipe    warp instructions of its blocks x clocks of each pipe
                                the way to memory   the same of loads and stores, or their wavefronts
                                one warp alone      its instructions in order, each after its operands
                              and more where these are close (a norm of the three): a warp that waits for
                              the one cannot keep the others busy.
    L2's, DRAM's time         bytes / bytes per second; the longer of the two, for they pass bytes on
    the launch                the processors' and the memory's time, likewise, at least what it takes to start
                              all blocks one after another, and what a launch costs that does nothing

What is not modelled: the order in which warps reach DRAM's pages, the halves of L2 and of the network to it,
instruction caches, clocks that fall under a heavy load, blocks of a launch that do different work.
Terms and where they come from: S. Williams et al., Roofline (2009); S. Hong, H. Kim, An analytical model for
a GPU (2009), for warps that wait; J. Little (1961), for bytes in flight; and the cards' sources for figures.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cudasim.counting.counted import Instruction
from cudasim.predicting.atomics import atomic_clocks, atomic_lines
from cudasim.predicting.caches import Local, Sharing, Traffic, local_of, traffic_of
from cudasim.predicting.cards import Card
from cudasim.predicting.flow import Flow, line_of
from cudasim.predicting.machine_code import MachineCode, MachineInstruction
from cudasim.predicting.occupancy import Occupancy
from cudasim.predicting.pace import clocks_of_blocks
from cudasim.predicting.pipes import busy_of
from cudasim.predicting.sampling import Sample
from cudasim.predicting.statements import Statements
from cudasim.predicting.units import l2_seconds_of_ncu, units_of


@dataclass(frozen=True)
class Efficiencies:
    """What the model cannot know from cards and counts, fitted to timed launches of public kernels
    (lab/speed.py, the half for calibration; docs: cudasim/docs/predicting.md).

    norm: of terms that are close to each other. issue, lsu: the part of its issue slots, and of the pipe for
    loads and stores, that a multiprocessor uses at best. line, fill: clocks of L1 for a line
    of 128 bytes, and for a sector that it has not. block, warp: clocks that starting a block costs, and each
    of its warps. phases: the part of a warp's waiting that barriers make all wait for. mma: the part of the
    tensor cores' rate that mma.sync has. atomic: clocks until floats may be added to a sector again.
    packet: sectors that L2 could take while it takes one sector of a line alone. l2, dram: parts of the
    card's bytes per second. latency: a factor of the cards' latencies, which are those of an idle GPU.
    dram_latency: of DRAM's when all its bandwidth is used. error: by which factor times are off, for two
    launches of three.
    """

    norm: float = 2.3
    issue: float = 0.96
    lsu: float = 0.9
    line: float = 0.95
    fill: float = 0.13
    block: float = 320.0
    warp: float = 18.0
    phases: float = 0.3
    mma: float = 0.62
    atomic: float = 3.5
    packet: float = 2.24
    l2: float = 1.05
    dram: float = 1.0
    latency: float = 1.07
    dram_latency: float = 2.0
    error: float = 1.15
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
    # Part of its peak that each unit of ncu's reaches: at ncu's clock, and at the one of these times.
    units: dict[str, float] = field(default_factory=dict)
    units_here: dict[str, float] = field(default_factory=dict)
    clocks_of_blocks: np.ndarray | None = None  # of a warp alone, by block of the code
    waits: dict[str, float] = field(default_factory=dict)  # clocks of a warp alone, by ncu's reasons
    starts: float = 0.0  # seconds to start all blocks


def _norm(power: float, *values: float) -> float:
    most = max(values)
    return most * sum((value / most) ** power for value in values) ** (1 / power) if most > 0 else 0.0


def _load_latencies(
    sample: Sample,
    traffic: Traffic,
    local: Local,
    card: Card,
    files: Statements,
    factor: float,
    dram_factor: float,
):
    """A function: the clocks of a load of global memory, by its line's hits in L1: those of the load there
    that misses most, for which the others wait. Where the first warp of a block loads more often than others,
    as in a sum by a tree, they wait for it at barriers, and it is its misses that count."""
    loads = [one for one in sample.instructions if (one.space, one.operation) == ("global", "ld")]
    most: dict[tuple[str, int], int] = defaultdict(int)
    missing: dict[tuple[str, int], float] = defaultdict(float)
    for one in loads:
        key = (one.place.file, one.place.line)
        most[key] = max(most[key], one.requests)
    for one in loads:
        key = (one.place.file, one.place.line)
        if one.requests > most[key] / 4:
            waits, requests = one.waits, one.requests
            if one.first_requests * sample.warps > 1.5 * requests:
                waits, requests = one.first_waits, one.first_requests
            missing[key] = max(missing[key], waits / requests)
    # Loads where none was counted, as those of both ways of a branch, that nvcc has joined, hit as others do.
    requests = sum(one.requests for one in loads)
    other = sum(one.waits for one in loads) / requests if requests else 1.0
    from_dram = min(1.0, traffic.dram_read / traffic.l2_read) if traffic.l2_read else 0.0
    latency = card.latency

    def of(instruction: MachineInstruction) -> float:
        beyond = latency["l2"] - latency["l1"]
        if instruction.name == "LDL":
            return latency["l1"] + local.lost * beyond * factor
        if ".STRONG" in instruction.opcode:
            # A volatile or relaxed load, of what others may just have stored: L2 answers, since L1 is not
            # coherent (PTX ISA, "Cache Operators" and "ld.volatile").
            return latency["l1"] + beyond * factor
        part = missing.get(line_of(instruction, files) or ("", 0), other)
        beyond += from_dram * (latency["dram"] * dram_factor - latency["l2"])
        return latency["l1"] + part * beyond * factor

    return of


_MACHINE = {("shared", "ld"): ("LDS",), ("shared", "st"): ("STS",), ("global", "ld"): ("LDG", "LD"),
            ("global", "st"): ("STG", "ST")}  # fmt: skip


def _merged(
    code: MachineCode, flow: Flow, sample: Sample, files: Statements
) -> dict[Instruction, tuple[float, float]]:
    """Of each load and store, the part that the compiler made wider, and how many of it are one then.

    The compiler makes one wide load of several narrow ones of a line. Which ones, where a line has several:
    those whose lanes read fewer places, since what a lane reads one after another lies side by side.
    """
    widths: dict[tuple, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for instruction, runs in flow.executed(code):
        where = line_of(instruction, files)
        for key, names in _MACHINE.items():
            if where and instruction.name in names:
                widths[(*where, *key)][instruction.bytes] += runs * instruction.bytes
    by_line: dict[tuple, list[Instruction]] = defaultdict(list)
    for one in sample.instructions:
        by_line[one.place.file, one.place.line, one.space, one.operation].append(one)
    found = {}
    for key, of_line in by_line.items():
        of_machine = widths.get(key, {})
        every = sum(of_machine.values())
        for size in sorted({one.bytes for one in of_line}):
            same = [one for one in of_line if one.bytes == size]
            wide = {width: moved for width, moved in of_machine.items() if width > size}
            if not every or not wide:
                continue
            times = sum(wide.values()) / sum(moved / width for width, moved in wide.items()) / size
            left = sum(wide.values()) / every * sum(one.requests for one in same)
            for one in sorted(same, key=lambda one: one.addresses / max(1, one.requests)):
                merged = min(float(one.requests), left)
                left -= merged
                if merged > 0:
                    found[one] = (merged / max(1, one.requests), times)
    return found


def _issued(code: MachineCode, flow: Flow, sample: Sample, files: Statements) -> dict[Instruction, float]:
    """Of each load, the part that the machine makes: what a line reads again and again, the compiler may
    keep in registers, as a product's operands and what does not change in a loop.

    A line's loads are as many bytes as the machine moves there. What it moves elsewhere, as the next round's
    loads above a loop's end, makes up for what other lines lack.
    """
    moved: dict[tuple, float] = defaultdict(float)
    for instruction, runs in flow.executed(code):
        if instruction.name in _UNSEEN:
            return {}
        if space := _LOADS.get(instruction.name):
            key = (*(line_of(instruction, files) or ("", 0)), space)
            moved[key] += runs * instruction.bytes
    counted: dict[tuple, float] = defaultdict(float)
    for one in sample.instructions:
        if one.operation == "ld":
            counted[one.place.file, one.place.line, one.space] += one.requests * one.bytes
    found = {}
    for space in set(_LOADS.values()):
        own = {key: of for key, of in counted.items() if key[2] == space and of}
        others = {key for key in moved if key[2] == space} | set(own)
        more = sum(max(0.0, moved.get(key, 0.0) - own.get(key, 0.0)) for key in others)
        lacking = sum(max(0.0, of - moved.get(key, 0.0)) for key, of in own.items())
        made_up = min(1.0, more / lacking) if lacking else 0.0
        for key, of in own.items():
            lacks = max(0.0, of - moved.get(key, 0.0))
            found[key] = 1.0 - lacks * (1.0 - made_up) / of
    return {
        one: found[key]
        for one in sample.instructions
        if one.operation == "ld" and (key := (one.place.file, one.place.line, one.space)) in found
    }


# What loads from where. Of the others the counts do not tell from where or in what line, or, of a fragment of
# a matrix, which lane.
_LOADS = {"LDG": "global", "LDGSTS": "global", "LDS": "shared"}
_UNSEEN = {"LD", "UBLKCP", "UTMALDG", "TEX", "TLD", "TLD4", "LDSM", "HMMA", "IMMA", "DMMA", "HGMMA"}


def _memory_clocks(
    sample: Sample,
    merged: dict[Instruction, tuple[float, float]],
    issued: dict[Instruction, float],
    together: set[tuple[str, int]],
    card: Card,
    fitted: Efficiencies,
) -> dict[str, float]:
    """Clocks of the multiprocessors' L1 and shared memory, over all blocks of the sample. together: lines
    whose atomics count the lanes that add one to an address, and add their number."""
    shared = l1 = 0.0
    for one in sample.instructions:
        made = issued.get(one, 1.0)
        part, times = merged.get(one, (0.0, 1.0))
        if one.space == "shared":
            # Other lanes that update one address of shared memory do so one after another.
            is_together = one.operation != "atom" or (one.place.file, one.place.line) in together
            again = 1.0 if is_together else one.threads / max(1, one.addresses)
            # A wide load has the bank conflicts of its own lanes, which go in halves or quarters of the warp.
            wavefronts = one.wavefronts_of_16 if times * one.bytes > 8 else one.wavefronts_of_8
            wide = min(one.wavefronts, wavefronts / times)
            shared += made * ((1 - part) * one.wavefronts + part * wide) * again
        else:
            bytes_ = max(32 * one.sectors / card.l1_bytes_per_clock, fitted.line * one.lines)
            l1 += made * bytes_ * (1 - part + part / times) + fitted.fill * one.missed
    return {"shared memory": shared * 128 / card.shared_bytes_per_clock, "L1": l1}


def _without_lanes(
    code: MachineCode,
    flow: Flow,
    sample: Sample,
    merged: dict[Instruction, tuple[float, float]],
    issued: dict[Instruction, float],
) -> float:
    """Clocks of shared memory's path for what the counts have not: shuffles, a thread's index, and loads and
    stores whose guard no lane of the warp meets. Each is a wavefront like any other (of sums by a tree in
    shared memory, ncu counts 27 wavefronts a warp on an H100, as many as machine instructions, where 5.6 have
    lanes)."""
    executed = others = 0.0
    for one, runs in flow.executed(code):
        executed += runs if one.name in ("LDS", "STS", "ATOMS") else 0.0
        others += runs if one.name == "SHFL" or (one.name == "S2R" and "SR_TID" in one.operands) else 0.0
    made = 0.0
    for one in sample.instructions:
        if one.space == "shared":
            part, times = merged.get(one, (0.0, 1.0))
            made += issued.get(one, 1.0) * one.requests * (1 - part + part / times)
    return max(0.0, executed - made) + others


def _constants(sample: Sample) -> float:
    """Clocks of the cache of constants, which serves the lanes of a request one address after another (CUDA
    C++ Programming Guide, "Constant Memory")."""
    constants = (one for one in sample.instructions if one.space == "constant")
    return _CONSTANT * sum(max(0, one.addresses - one.requests) for one in constants)


_CONSTANT = 10.7  # for each address but the first: floats at random in a table took that (an H100)


def _written(sample: Sample, merged: dict[Instruction, tuple[float, float]], fitted: Efficiencies) -> float:
    """Sectors' worth of L2's time that the sample's stores take. What a request writes of one line goes to L2
    together; a line of which it writes one sector takes longer than its sector."""
    total = 0.0
    for one in sample.instructions:
        if (one.space, one.operation) == ("global", "st"):
            part, times = merged.get(one, (0.0, 1.0))
            scattered = max(0.0, one.lines - one.sectors / 4)
            total += (one.sectors + fitted.packet * scattered) * (1 - part + part / times)
    return total


_WAY_TO_MEMORY = ("LSU", "L1 and shared memory")

# Clocks in which a GPU starts a block: launches of 65536 blocks or more of 64 or 128 threads that did
# different things took 1.21 to 1.25 for each (11 of an H100, 11 of an H200). And those in which a
# multiprocessor starts a warp: of launches of as many blocks of 256 threads, the quickest took 23.0 to 24.6
# for each of its warps (rectifiers, a conversion, two additions).
_STARTED, _STARTED_WARP = 1.21, 23.0


def _busiest(code: MachineCode, sample: Sample, files: Statements) -> tuple[np.ndarray, np.ndarray]:
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


def _weighted(waits: Sequence[Counter[str]], runs: np.ndarray) -> Counter[str]:
    total: Counter[str] = Counter()
    for of_block, times in zip(waits, runs, strict=True):
        for name, clocks in of_block.items():
            total[name] += clocks * float(times)
    return total


def predict_terms(
    code: MachineCode,
    flow: Flow,
    sample: Sample,
    sharing: Sharing,
    card: Card,
    held: Occupancy,
    files: Statements,
    fitted: Efficiencies = EFFICIENCIES,
) -> Terms:
    """The terms of a launch whose blocks the card can hold."""
    updating = atomic_clocks(sample, sharing, atomic_lines(code, flow, files), fitted.atomic) / card.clock_hz
    found = _terms(code, flow, sample, sharing, card, held, files, updating, fitted)
    # Loads wait longer for a busier DRAM, by the square of its use: they queue once most of it is used.
    used = min(1.0, found.dram / (found.seconds - found.launch))
    fitted = replace(fitted, dram_latency=1.0 + (fitted.dram_latency - 1.0) * used**2)
    found = _terms(code, flow, sample, sharing, card, held, files, updating, fitted)
    if card.ncu_clock_hz == card.clock_hz:
        return found
    at_ncu = card.at_clock(card.ncu_clock_hz)
    of_ncu = _terms(code, flow, sample, sharing, at_ncu, held, files, updating, fitted)
    return replace(found, units=of_ncu.units)


def _terms(
    code: MachineCode,
    flow: Flow,
    sample: Sample,
    sharing: Sharing,
    card: Card,
    held: Occupancy,
    files: Statements,
    updating: float,
    fitted: Efficiencies,
) -> Terms:
    """With both kinds of units at the card's clock. updating: seconds of L2 for atomics."""
    blocks_at_once = held.blocks * card.multiprocessors
    traffic = traffic_of(sample, sharing, card, blocks_at_once)
    local = local_of(code, flow, sample, card, held)
    loads = _load_latencies(sample, traffic, local, card, files, fitted.latency, fitted.dram_latency)
    alone, waits = clocks_of_blocks(code.blocks, flow, card, loads, fitted.mma)
    ran = len(sample.blocks)
    warps = ran * sample.warps
    in_block, in_launch = _busiest(code, sample, files)
    start = fitted.block + fitted.warp * sample.warps
    clocks_alone = float((flow.runs * alone * in_block).sum()) / warps + start
    clocks_longest = float((flow.runs * alone * in_launch).sum()) / warps + start
    busy: dict[str, float] = defaultdict(float)
    instructions = 0.0
    for instruction, runs in flow.executed(code):
        pipe, clocks = busy_of(instruction, card, fitted.mma)
        instructions += runs
        busy[pipe] += runs * clocks
    busy.pop("control", None)
    # Multiply-adds of integers run on the pipe of those of floats, on its one half where it has two.
    if "imad" in busy or "fp32" in busy:
        both = busy["fp32"] + busy["imad"] * card.lanes["imad"] / card.lanes["fp32"]
        busy["FMA"] = max(both, busy.pop("imad", 0.0))
        busy.pop("fp32", None)
    names = {"int32": "ALU", "special": "XU", "convert": "XU", "popc": "XU", "lsu": "LSU", "shuffle": "LSU",
             "fp64": "FP64", "fp16": "FP16", "convert64": "XU", "shift": "ALU"}  # fmt: skip
    of_units: dict[str, float] = defaultdict(float)
    for name, clocks in busy.items():
        of_units[names.get(name, name)] += clocks
    busy = of_units
    busy["LSU"] /= fitted.lsu
    busy["issue slots"] = instructions / card.schedulers / fitted.issue
    busy["constants"] = _constants(sample)
    merged = _merged(code, flow, sample, files)
    issued = _issued(code, flow, sample, files)
    together = {line_of(i, files) for i, _ in flow.executed(code) if i.opcode.startswith("ATOMS.POPC")}
    memory = _memory_clocks(sample, merged, issued, together, card, fitted)
    memory["without lanes"] = _without_lanes(code, flow, sample, merged, issued)
    of_local = fitted.line * (local.read + local.written) / 4 + fitted.fill * local.lost * local.read
    busy["L1 and shared memory"] = sum(memory.values()) + of_local

    # Rounds of the blocks that a multiprocessor holds; the last one may hold fewer.
    each = sample.total / card.multiprocessors
    most = math.ceil(each)
    whole, rest = divmod(most, held.blocks)
    of_block = {name: clocks / ran for name, clocks in busy.items()}
    loading = max(clocks for name, clocks in of_block.items() if name in _WAY_TO_MEMORY)
    computing = max(clocks for name, clocks in of_block.items() if name not in _WAY_TO_MEMORY)

    # Between barriers all warps of a block load, and then all compute: only other blocks fill the gaps.
    waiting = max(0.0, clocks_alone - start - instructions / warps) if sample.barriers else 0.0

    def round_of(blocks: float) -> float:
        # Blocks of one warp in four keep only one of the four parts busy.
        parts = min(1.0, blocks * sample.warps / card.schedulers)
        asked = (blocks * clocks / parts for clocks in (computing, loading))
        return _norm(fitted.norm, clocks_alone, *asked) + fitted.phases * waiting / blocks

    clocks = whole * round_of(held.blocks) + (round_of(rest) if rest else 0.0)
    if whole and each > 4 * held.blocks:
        clocks = each / held.blocks * round_of(held.blocks)  # many rounds: they overlap
    on_processors = max(clocks, clocks_longest) / card.clock_hz
    atomics = traffic.l2_written - 32 * sample.scale * sum(
        one.sectors for one in sample.instructions if (one.space, one.operation) == ("global", "st")
    )
    l2_bytes = traffic.l2_read + atomics + 32 * sample.scale * _written(sample, merged, fitted)
    l2_bytes += 32 * sample.scale * (local.lost * local.read + local.written)
    l2 = l2_bytes / (card.l2_bandwidth * fitted.l2)
    dram = traffic.dram_bytes(card) / (card.dram_bandwidth * fitted.dram)
    start_of_one = max(_STARTED, _STARTED_WARP * sample.warps / card.multiprocessors)
    starts = start_of_one * sample.total / card.clock_hz
    # What goes to DRAM goes through L2 meanwhile.
    # Atomics that meet in L2 go on while all else does, from when the first blocks get to them.
    updated = updating and updating + clocks_alone / card.clock_hz
    running = max(starts, updated, _norm(fitted.norm, on_processors, max(l2, dram)))
    seconds = running + card.launch_seconds
    in_all = {name: clocks * each / card.clock_hz for name, clocks in of_block.items()}
    rounds = each / held.blocks
    # The part of its peak that each part has when it is busy all the time; that of constants as ncu said.
    peaks = dict.fromkeys(in_all, 1.0) | {"issue slots": fitted.issue, "constants": 0.79}
    peaks["LSU"] = fitted.lsu
    l2_of_ncu = l2_seconds_of_ncu(sample, merged, local, card)

    units = units_of(in_all, l2_of_ncu, traffic, card, running, peaks)
    units["L1"] /= min(1.0, each)  # of the multiprocessors that have blocks
    return Terms(
        in_all,
        clocks_alone * math.ceil(rounds) / card.clock_hz,
        max(l2, updated),
        dram,
        card.launch_seconds,
        seconds,
        rounds,
        traffic,
        instructions * sample.scale,
        clocks_alone,
        units,
        units,
        alone,
        {name: float(clocks) / warps for name, clocks in _weighted(waits, flow.runs).items()},
        starts,
    )
