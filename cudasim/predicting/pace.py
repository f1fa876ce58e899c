"""The time of a single warp through a block of the machine code.

A warp issues its instructions in order, at most one per clock, and waits before an instruction whose operands
are not ready. The compiler has put as many independent instructions between a load and its use as it could;
this shows how many.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from cudasim.predicting.cards import Card
from cudasim.predicting.flow import Flow
from cudasim.predicting.machine_code import EXIT, Block, MachineInstruction
from cudasim.predicting.pipes import busy_of, kind_of, latency_of

_REGISTER = re.compile(r"(?<![\w.])(U?[RP])(\d+)(\.64)?(?![\w])")
_WITHOUT_RESULT = (
    "STG",
    "STS",
    "ST",
    "STL",
    "RED",
    "REDG",
    "BRA",
    "EXIT",
    "BAR",
    "SUST",
    "STSM",
    "CCTL",
    "MEMBAR",
)


# Instructions whose results a warp waits for, by ncu's reasons; for others it waits a fixed number of clocks.
_REASONS = {
    **dict.fromkeys(("LDG", "LD", "LDL", "TEX", "TLD", "TLD4", "SULD", "ATOM", "ATOMG"), "long scoreboard"),
    **dict.fromkeys(("LDS", "LDSM", "LDC", "ATOMS", "S2R", "S2UR", "MUFU", "SHFL"), "short scoreboard"),
}
_OF_MEMORY = ("LDG", "LD", "LDL", "STG", "ST", "STL", "ATOM", "ATOMG", "RED", "REDG")
_QUEUES = {"lsu": "lg throttle", "shuffle": "mio throttle"}


@lru_cache(maxsize=1 << 16)
def registers_of(text: str, name: str, opcode: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The registers that an instruction writes, and those that it reads."""
    guard, _, rest = text.partition("|")
    operands = rest.split(",")
    writes: list[str] = []
    reads: list[str] = [f"{kind}{number}" for kind, number, _ in _REGISTER.findall(guard)]
    results = 0 if name in _WITHOUT_RESULT else 1
    if results and len(operands) > 1 and re.match(r"\s*U?P(\d|T)", operands[0]):
        # Predicates come in pairs, before or in place of a register.
        results = 2 if re.match(r"\s*(U?P(\d|T)|U?R\w+)", operands[1]) and "SETP" in name else 1
    elif results and len(operands) > 2 and re.match(r"\s*U?P\d", operands[1]):
        results = 2  # a carry
    wide = 1
    if name in ("LDG", "LDS", "LD", "LDL", "LDC", "ULDC"):
        wide = 4 if ".128" in opcode else 2 if ".64" in opcode else 1
    elif "WIDE" in opcode or name in ("DFMA", "DADD", "DMUL", "IMMA"):
        wide = 2
    elif name in ("HMMA", "LDSM"):
        wide = 4
    for place, operand in enumerate(operands):
        for kind, number, pair in _REGISTER.findall(operand):
            if place < results:
                count = wide if kind.endswith("R") else 1
                writes += [f"{kind}{int(number) + step}" for step in range(count)]
            else:
                count = (
                    2 if pair or name[0] == "D" else 4 if name == "HMMA" and place == len(operands) - 1 else 1
                )
                reads += [f"{kind}{int(number) + step}" for step in range(count)]
    return tuple(writes), tuple(reads)


class _Warp:
    """A running warp: the clock, and when each register is ready."""

    def __init__(self, card: Card, loads: Callable[[MachineInstruction], float], mma_efficiency: float):
        self.card, self.loads, self.mma_efficiency = card, loads, mma_efficiency
        self.now = 0.0
        self.ready: dict[str, float] = {}
        self.free: dict[str, float] = {}  # when each pipe takes the warp's next instruction
        self.made_by: dict[str, str] = {}  # what writes each register, as a reason to wait for it
        self.waits: Counter[str] = Counter()  # clocks by reason, as ncu calls them

    def run(self, instructions: Sequence[MachineInstruction]) -> float:
        """Runs a block; returns its clocks."""
        begin = self.now
        for instruction in instructions:
            key = f"{instruction.guard}|{instruction.operands}"
            writes, reads = registers_of(key, instruction.name, instruction.opcode)
            at, reason = self.now, ""
            for register in reads:
                if self.ready.get(register, 0.0) > at:
                    at, reason = self.ready[register], self.made_by[register]
            pipe, busy = busy_of(instruction, self.card, self.mma_efficiency)
            if self.free.get(pipe, 0.0) > at:
                at, reason = self.free[pipe], _QUEUES.get(pipe, "math pipe throttle")
            if instruction.name in ("LDGDEPBAR", "DEPBAR"):
                at = max([at, *self.ready.values()]) if instruction.name == "DEPBAR" else at
                reason = "long scoreboard"
            self.waits[reason] += at - self.now
            self.waits["selected"] += 1.0
            # One of the four parts of the multiprocessor has a quarter of the pipe.
            self.free[pipe] = at + (busy * self.card.schedulers if pipe != "lsu" else 2.0)
            latency = latency_of(instruction, self.card, self.loads(instruction))
            if instruction.name == "LDGSTS":
                self.ready["copies"] = at + latency
            for register in writes:
                self.ready[register] = at + latency
                self.made_by[register] = _REASONS.get(instruction.name, "wait")
            self.now = at + 1.0
            if instruction.name == "BAR":
                self.now += self.card.latency["barrier"]
                self.waits["barrier"] += self.card.latency["barrier"]
            elif kind_of(instruction) == "control" and instruction.name in (
                "BRA",
                "EXIT",
                "BSYNC",
                "CALL",
                "RET",
            ):
                more = self.card.latency["branch"] if instruction.name == "BRA" else 1.0
                self.now += more
                self.waits["branch resolving"] += more
        return self.now - begin


def _before(blocks: Sequence[Block], flow: Flow) -> dict[int, int]:
    """The block from which warps come to each one oftenest: to what follows a guarded load, from the load if
    its guard holds, though they run the block of the branch as often."""
    before: dict[int, int] = {}
    most: dict[int, float] = {}
    for block in blocks:
        for target in block.follows:
            times = flow.edges.get((block.index, target), flow.runs[block.index])
            if target != EXIT and times > most.get(target, 0.0):
                before[target], most[target] = block.index, times
    return before


def _chain(index: int, next_of: Mapping[int, int], most: int = 3) -> list[int]:
    """The most frequent successors of a block, one after the other, up to itself."""
    chain: list[int] = []
    at = index
    while len(chain) < most and at in next_of:
        at = next_of[at]
        chain.append(at)
        if at == index:
            break
    return chain


def accesses_in_flight(blocks: Sequence[Block], flow: Flow) -> list[tuple[float, float]]:
    """The number of accesses to global and local memory that a warp has in flight when it waits for one:
    pairs of that number and of the accesses just issued. It is math.inf for accesses without a wait, such as
    stores at the end."""
    runs, before = flow.runs, _before(blocks, flow)
    after = {
        block.index: max(there, key=lambda index: flow.edges.get((block.index, index), runs[index]))
        for block in blocks
        if (there := [index for index in block.follows if index != EXIT and runs[index] > 0])
    }
    found = []
    for block in blocks:
        if runs[block.index] <= 0:
            continue
        earlier = _chain(block.index, before)
        order = [*reversed(earlier), block.index, *_chain(block.index, after)]
        for number, issued in _batches([blocks[index].instructions for index in order], len(earlier)):
            found.append((number, issued * float(runs[block.index])))
    return found


def _batches(of_blocks: Sequence[Sequence[MachineInstruction]], own: int) -> list[tuple[float, int]]:
    """The same for the accesses of one block in a sequence. own: its place."""
    flying: list[tuple[str, ...]] = []  # the registers that each access writes, the oldest first
    issued, found = 0, []
    for place, instructions in enumerate(of_blocks):
        for one in instructions:
            writes, reads = registers_of(f"{one.guard}|{one.operands}", one.name, one.opcode)
            used = [at for at, registers in enumerate(flying) if not set(reads).isdisjoint(registers)]
            if used:
                if issued:
                    found.append((float(len(flying)), issued))
                issued, flying = 0, flying[max(used) + 1 :]  # they come back in the order of their issue
            if one.name in _OF_MEMORY:
                flying.append(writes)
                issued += place == own
    return [*found, (math.inf, issued)] if issued else found


def clocks_of_blocks(
    blocks: Sequence[Block],
    flow: Flow,
    card: Card,
    loads: Callable[[MachineInstruction], float],
    mma_efficiency: float,
) -> tuple[np.ndarray, list[Counter[str]]]:
    """Clocks that a single warp takes through each block, after its most frequent predecessor; and these by
    the warp's state: it issues ("selected"), or waits for one of ncu's reasons."""
    runs, before = flow.runs, _before(blocks, flow)
    clocks = np.zeros(len(blocks))
    waits: list[Counter[str]] = [Counter() for _ in blocks]
    for block in blocks:
        if runs[block.index] <= 0:
            continue
        warp = _Warp(card, loads, mma_efficiency)
        for index in reversed(_chain(block.index, before)):
            warp.run(blocks[index].instructions)
        warp.waits.clear()
        clocks[block.index] = warp.run(block.instructions)
        waits[block.index] = +warp.waits
    return clocks, waits
