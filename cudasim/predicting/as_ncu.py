"""A prediction in the words of Nsight Compute: what `ncu` would say of the launch, by its names of metrics.

Requests, sectors, bank conflicts and bytes that lanes ask for are counted; times, and what follows from them,
are predicted. What the warps wait for is, of a warp alone, what its instructions wait for; the rest of the
warps' time is put to the part of the GPU that is the fullest.
"""

from __future__ import annotations

import math
from collections import defaultdict

from cudasim.counting import metrics as m
from cudasim.predicting.model import EFFICIENCIES
from cudasim.predicting.pace import accesses_in_flight
from cudasim.predicting.prediction import OnCard, Prediction
from cudasim.predicting.sampling import SECTOR_BYTES

_LANES = 32
_OPERATIONS = {"FADD": "fadd", "FMUL": "fmul", "FFMA": "ffma"}
_BOTH = "L1 and shared memory"


def metrics_of(prediction: Prediction) -> dict[str, float]:
    """The metrics by ncu's names, for the first GPU. ValueError where that cannot hold a block."""
    one = prediction.on[0]
    if one.terms is None:
        raise ValueError(f"{one.card.name}: the launch cannot run there, so nothing is predicted of it")
    return {**_launch(prediction, one), **_memory(prediction, one), **_compute(prediction, one)}


def _launch(prediction: Prediction, one: OnCard) -> dict[str, float]:
    sample, held, card = prediction.sample, one.held, one.card
    return {
        m.TIME: one.seconds * 1e9,
        m.CYCLES: one.seconds * card.clock_hz,
        m.CLOCK: card.clock_hz,
        m.GRID: sample.total,
        m.BLOCK: sample.threads,
        m.REGISTERS: one.code.registers,
        m.SHARED_STATIC: one.code.shared_bytes,
        m.SHARED_DYNAMIC: sample.dynamic_shared_bytes,
        m.WAVES: sample.total / (card.multiprocessors * held.blocks),
        **{metric: held.limits[name] for name, metric in m.OCCUPANCY_LIMITS.items()},
        m.OCCUPANCY_POSSIBLE: 100 * held.fraction,
        m.OCCUPANCY: 100 * _warps_at_once(prediction, one) / card.warps,
    }


def _warps_at_once(prediction: Prediction, one: OnCard) -> float:
    """Warps that are on a multiprocessor at a time, on average over all of them."""
    sample = prediction.sample
    return min(one.held.blocks, sample.total / one.card.multiprocessors) * sample.warps


def _memory(prediction: Prediction, one: OnCard) -> dict[str, float]:
    traffic, found = one.terms.traffic, defaultdict(float)
    for names in (
        m.GLOBAL_REQUESTS,
        m.GLOBAL_SECTORS,
        m.SHARED_REQUESTS,
        m.SHARED_WAVEFRONTS,
        m.BANK_CONFLICTS,
    ):
        found.update(dict.fromkeys(names.values(), 0.0))
    scale = prediction.sample.scale
    for each in prediction.sample.instructions:
        asked = m.ASKED.get((each.space, each.operation))
        if asked:
            found[asked] += scale * each.threads * each.bytes
        if each.space == "global" and each.operation in m.GLOBAL_REQUESTS:
            found[m.GLOBAL_REQUESTS[each.operation]] += scale * each.requests
            found[m.GLOBAL_SECTORS[each.operation]] += scale * each.sectors
            found[m.L1_BYTES] += scale * SECTOR_BYTES * each.sectors
        elif each.space == "shared" and each.operation in m.SHARED_REQUESTS:
            found[m.SHARED_REQUESTS[each.operation]] += scale * each.requests
            found[m.SHARED_WAVEFRONTS[each.operation]] += scale * each.wavefronts
            found[m.BANK_CONFLICTS[each.operation]] += scale * (each.wavefronts - each.phases)
    found |= {
        m.DRAM_READ: traffic.dram_read,
        m.DRAM_WRITE: traffic.dram_written,
        m.L2_TO_L1: traffic.l2_read,
        m.L1_TO_L2: traffic.l2_written,
        m.L2_BYTES: traffic.l2_read + traffic.l2_written,
    }
    return dict(found)


def _compute(prediction: Prediction, one: OnCard) -> dict[str, float]:
    terms, scale, fitted = one.terms, prediction.sample.scale, EFFICIENCIES
    parts = {name: 100 * seconds / one.seconds for name, seconds in terms.busy.items()}
    parts["LSU"] = parts.get("LSU", 0.0) * fitted.lsu
    operations = dict.fromkeys(m.FP32, 0.0)
    for instruction, runs in one.flow.executed(one.code):
        if instruction.name in _OPERATIONS:
            name = f"smsp__sass_thread_inst_executed_op_{_OPERATIONS[instruction.name]}_pred_on.sum"
            operations[name] += runs * _LANES * scale
    found = {
        m.INSTRUCTIONS: terms.instructions,
        m.ISSUE: parts.get("issue slots", 0.0) * fitted.issue,
        **operations,
        **{
            metric: 100 * terms.units_here[name]
            for name, metric in m.THROUGHPUTS.items()
            if name in terms.units
        },
        **{metric: parts.get(_BOTH if name == "L1 data" else name, 0.0) for name, metric in m.PIPES.items()},
    }
    waits = waits_of(prediction, one)
    return found | {m.STALLS[name]: clocks for name, clocks in waits.items() if name in m.STALLS}


def waits_of(prediction: Prediction, one: OnCard) -> dict[str, float]:
    """Clocks of a warp for each of its instructions, by what it does in them. Empty without machine code."""
    terms, sample, card = one.terms, prediction.sample, one.card
    if not one.code.architecture or not terms.instructions:
        return {}
    warps = sample.total * sample.warps
    of_warp = terms.instructions / warps
    found = {name: clocks / of_warp for name, clocks in terms.waits.items() if name and clocks}
    # All warps together are there for as long as the launch takes, as many at a time as fit.
    rounds = max(1.0, warps / card.multiprocessors / _warps_at_once(prediction, one))
    there = (one.seconds - card.launch_seconds) * card.clock_hz / rounds / of_warp
    more = there - math.fsum(found.values())
    if more > 0:
        for reason, part in _reasons(prediction, one).items():
            found[reason] = found.get(reason, 0.0) + more * part
    return found


def _reasons(prediction: Prediction, one: OnCard) -> dict[str, float]:
    """What warps wait for where the fullest part of the GPU has no room for them, and the part of each."""
    terms = one.terms
    parts = {**terms.busy, "L2": terms.l2, "DRAM": terms.dram}
    fullest = max(parts, key=parts.get)
    if fullest in ("LSU", _BOTH):
        clocks = defaultdict(float)
        for each in prediction.sample.instructions:
            clocks[each.space] += each.sectors / 4 if each.space == "global" else each.wavefronts
        if clocks["shared"] > clocks["global"]:
            return {"mio throttle": 1.0}
        throttled = _throttled(prediction, one)
        return {"lg throttle": throttled, "long scoreboard": 1.0 - throttled}
    if fullest in ("L2", "DRAM"):
        return {"long scoreboard": 1.0}
    return {"not selected" if fullest == "issue slots" else "math pipe throttle": 1.0}


_QUEUED = 13  # accesses of global memory that the queue of a scheduler's warps holds


def _throttled(prediction: Prediction, one: OnCard) -> float:
    """The part of the waiting for a full L1 that warps spend before a load instead of after it.

    A warp stalls by lg throttle only while the queue for local and global memory is full (Nsight Compute's
    documentation, warp stall reasons): what it issues while there is room waits in the queue, and the warp,
    at the use of the value, by long scoreboard. In a loop, warps that each issue n accesses before they wait
    want n times their number of places. A queue of Q takes Q of them, so the part 1 - Q / (n x warps) of an
    access's waiting is for a place. NVIDIA does not say what Q is; two profiles agree on about 13 for a
    scheduler: 4 warps of a multiprocessor with 16 loads each wait by lg throttle in 16 % of both reasons'
    samples (profiles/h100/samples/row_sums.json), 60 warps with 3 or 4 in 76 %
    (profiles/h200/reports/source.ncu-rep.xz, naive_gemm_kernel).
    """
    batches = accesses_in_flight(one.code.blocks, one.flow)
    issued = math.fsum(count for _, count in batches)
    if not issued:
        return 1.0
    warps = max(_warps_at_once(prediction, one), prediction.sample.warps)
    queue = _QUEUED * one.card.schedulers / warps
    return math.fsum(count * max(0.0, 1.0 - queue / number) for number, count in batches) / issued
