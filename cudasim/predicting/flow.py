"""How often a launch's warps run each block of the machine code, found without a GPU.

The simulator knows how often warps came to each line and what each load and store asked for; the machine
code has other loops: unrolled by four, with a remainder, its loads made wider. What connects the two is a
flow: a warp that enters a block leaves it by one of its edges. Of all flows through the code's graph a linear
program finds the one that makes the loads, stores and atomics of each line move as many bytes as counted,
bends the rule of flow least (lanes that part at a branch run both sides), and issues the fewest instructions.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from cudasim.predicting.loops import loops_of, nest_of, reachable_blocks, whole_rounds
from cudasim.predicting.machine_code import EXIT, Block, MachineCode, MachineInstruction
from cudasim.predicting.pipes import kind_of
from cudasim.predicting.sampling import Sample
from cudasim.predicting.statements import Statements

# What a warp's instruction too many or too few costs, by what it contradicts: the bytes that were counted,
# the rule of flow, how often warps came to a line (where loops have no loads), and nothing.
_BYTES, _FLOW, _LINES, _ISSUED = 10.0, 3.0, 0.5, 1e-3
_BARRIERS = 30.0  # likewise of one that no compiler leaves out, adds, or gives another line
_CALLED = 60  # instructions of a function that the compiler calls, a division of 64 bits, about

# The machine's loads and stores, by what the simulator calls them.
_SPACES = {
    **dict.fromkeys(("LDG", "LD"), ("global", "ld")),
    **dict.fromkeys(("STG", "ST"), ("global", "st")),
    **dict.fromkeys(("ATOMG", "ATOM", "RED", "REDG"), ("global", "atom")),
    **dict.fromkeys(("LDS", "LDSM"), ("shared", "ld")),
    **dict.fromkeys(("STS", "STSM"), ("shared", "st")),
    **dict.fromkeys(("ATOMS",), ("shared", "atom")),
}


@dataclass(frozen=True)
class Flow:
    """runs: how often all warps of the launch together run each block. missed: warp instructions that the
    counts have and the flow has not, as a part of those counted: 0 where the two agree. edges: how often
    warps go from one block to another; without machine code there are none."""

    runs: np.ndarray
    missed: float
    edges: dict[tuple[int, int], float] = field(default_factory=dict)

    def executed(self, code: MachineCode) -> Iterator[tuple[MachineInstruction, float]]:
        """The instructions of the blocks that run, and how often each does."""
        for block in code.blocks:
            if self.runs[block.index] > 0:
                for instruction in block.instructions:
                    yield instruction, self.runs[block.index]


class _Program:
    """Rows and columns of the linear program, as they come."""

    def __init__(self):
        self.costs: list[float] = []
        self.equal: list[tuple[dict[int, float], float]] = []
        self.at_most: list[tuple[dict[int, float], float]] = []

    def variable(self, cost: float = 0.0) -> int:
        self.costs.append(cost)
        return len(self.costs) - 1

    def nearly(self, terms: dict[int, float], value: float, cost: float, at_least: bool = False):
        """The terms' sum is to be the value; `cost` for each that it differs by. at_least: more is free."""
        less = self.variable(cost)
        terms = terms | {less: 1.0}
        if at_least:
            self.at_most.append(({index: -factor for index, factor in terms.items()}, -value))
            return
        more = self.variable(cost)
        self.equal.append((terms | {more: -1.0}, value))

    def solve(self) -> np.ndarray:
        from scipy.optimize import linprog
        from scipy.sparse import coo_array

        def matrix(rows):
            entries = [
                (row, column, factor)
                for row, (terms, _) in enumerate(rows)
                for column, factor in terms.items()
            ]
            if not entries:
                return None, None
            row, column, factor = zip(*entries, strict=True)
            shape = (len(rows), len(self.costs))
            return coo_array((factor, (row, column)), shape=shape).tocsr(), [value for _, value in rows]

        a_eq, b_eq = matrix(self.equal)
        a_ub, b_ub = matrix(self.at_most)
        solved = linprog(self.costs, A_ub=a_ub, b_ub=b_ub, A_eq=a_eq, b_eq=b_eq, method="highs")
        if solved.x is None:
            raise RuntimeError(f"the linear program of the flow has no solution: {solved.message}")
        return solved.x


def line_of(instruction: MachineInstruction, files: Statements) -> tuple[str, int] | None:
    """Its line in the user's own files, the innermost one: where the statement begins."""
    for file, line in instruction.lines:
        if file in files:
            return file, files.start(file, line)
    return None


def _is_named(instruction: MachineInstruction) -> bool:
    """Whether it is a barrier of some of a block's threads, which the counts leave out."""
    return instruction.name == "BAR" and instruction.operands.split(",")[0].strip() != "0x0"


def _entered(
    blocks: Sequence[Block],
    inside: set[int],
    around: set[int],
    files: Statements,
    passed: Callable[[tuple[str, int]], int],
) -> int:
    """How often a warp comes to a loop that is inside of another one: as often as to the lines around it,
    from the outer one's first on. The compiler may have moved others there; and for some, to which warps
    came again and again, the simulator's compiler counts only the first time."""
    first = line_of(blocks[max(around)].instructions[-1], files)  # of the branch back
    own, others = (
        {line_of(i, files) for index in part for i in blocks[index].instructions}
        for part in (inside, around - inside)
    )
    lines = (
        where for where in others - own if where and (not first or first <= where < (first[0], math.inf))
    )
    return min((number for where in lines if (number := passed(where)) > 1), default=1)


def _left_out(blocks: Sequence[Block], block: Block, target: int, files: Statements) -> int:
    """By how many instructions a branch within a statement is shorter than to go on, and one more: it is not
    taken because it is short. A function of mathematics goes on for most arguments, and branches for special
    ones, which the counts do not tell. A call is for special ones too: a division makes it, of whole numbers
    of 64 bits as well, and is longer than the way around it. So is what keeps words in local memory: the
    remainder of a large angle, which sines begin with."""
    if (
        target != EXIT
        and len(block.follows) > 1
        and any(i.name == "CALL" for i in blocks[target].instructions)
    ):
        return _CALLED
    between = blocks[block.index + 1 : target]
    if target == EXIT or len(block.follows) < 2 or not between:
        return 0
    inside = [i for of in between for i in of.instructions]
    lines = {line_of(i, files) for i in (block.instructions[-1], *inside)}
    if len(lines) > 1 or any(i.name in ("CALL", "EXIT", "RET", "STL") for i in inside):
        return 0
    return 1 + len(inside)


_FLOATS = {"FADD", "FMUL", "FFMA", "DADD", "DMUL", "DFMA", "HADD2", "HMUL2", "HFMA2", "MUFU"}
_INTEGERS = {"IMAD", "IADD3", "VIADD", "LOP3", "SHF", "IMUL", "LEA"}
_TWO = {"FFMA", "DFMA", "HFMA2"}
_SUBSCRIPTED = re.compile(r"\w\s*(?:\[[^\]]*\]\s*)+")
_CALLED_MULTIPLY_ADD = re.compile(r"\b(?:fmaf?|__fmaf?_r[nzud]|__hfma2?)\s*\(")
_MULTIPLY_ADD = re.compile(rf"\+=[^;]*\*|{_CALLED_MULTIPLY_ADD.pattern}")


def _operations(instructions: Sequence[MachineInstruction]) -> int:
    floats = sum(1 + (i.name in _TWO) for i in instructions if i.name in _FLOATS)
    return floats or sum(i.name in _INTEGERS for i in instructions)


def operators_of(text: str) -> int:
    """How many operators and calls a line of C++ has, about."""
    text = re.sub(r"//.*|\[[^\]]*\]|\b(?:for|while|if)\s*\(|\+\+|--|->", " ", text)
    return max(1, len(re.findall(r"<<|>>|[-+*/%^&|](?!=)|[-+*/%^&|]=|\b\w+f?\s*\(", text)))


def _operations_of(text: str) -> int:
    """Likewise, as `_operations` counts them: a multiply-add is two, a call of one too."""
    return operators_of(text) + len(_CALLED_MULTIPLY_ADD.findall(text.partition("//")[0]))


def _times(of_blocks: dict[int, list[MachineInstruction]], row: str, is_caller: bool) -> dict[int, float]:
    """How often each block has a line's code: four times where a loop is unrolled by four.

    A loop's remainder, or else the operators of the line's text, `row`, tell what once is.
    """
    counts = {index: Counter(i.name for i in instructions) for index, instructions in of_blocks.items()}
    everywhere = set.intersection(*(set(count) for count in counts.values()))
    operations = {index: _operations(instructions) for index, instructions in of_blocks.items()}
    if len(counts) > 1 and everywhere:
        name = max(everywhere, key=lambda name: sum(count[name] for count in counts.values()))
        least = min(counts, key=lambda index: counts[index][name])
        once = 1 if is_caller else max(1, round(operations[least] / _operations_of(row)))
        return {index: once * count[name] / counts[least][name] for index, count in counts.items()}
    if is_caller:
        return {}
    return {
        index: max(1.0, round(number / _operations_of(row))) for index, number in operations.items() if number
    }


def flow_of(code: MachineCode, sample: Sample, files: Statements) -> Flow:
    """How often the sample's warps run each block. files: the sources; the sample has its places by them."""
    blocks = code.blocks
    reachable = reachable_blocks(blocks)
    program = _Program()
    edges: dict[tuple[int, int], int] = {}
    into: dict[int, list[int]] = defaultdict(list)
    runs: dict[int, int] = {}
    for block in blocks:
        if block.index not in reachable:
            continue
        runs[block.index] = program.variable(_ISSUED * len(block.instructions))
        for target in block.follows:
            edges[block.index, target] = program.variable(_ISSUED * _left_out(blocks, block, target, files))
            into[target].append(edges[block.index, target])
    warps = sample.warps * len(sample.blocks)
    for index, run in runs.items():
        entering = {edge: 1.0 for edge in into[index]}
        if blocks[index].is_called:  # as often as the counts of its lines say
            entering[program.variable()] = 1.0
        entered = -float(warps) if index == 0 else 0.0
        leaving = {edges[index, target]: 1.0 for target in blocks[index].follows}
        # Both ways round only where ways part or join: lanes that part run both, and are one warp after.
        for terms, value, ways in ((entering, entered, len(into[index])), (leaving, 0.0, len(leaving))):
            terms = dict(terms)
            terms[run] = terms.get(run, 0.0) - 1.0
            if ways > 1:
                program.nearly(terms, value, _FLOW)
            else:
                program.equal.append((terms, value))

    def row_of(where: tuple[str, int]) -> str:
        return files.text_at(*where)

    # What was counted, by line, and what the machine's instructions do there.
    counted: dict[tuple, float] = defaultdict(float)
    most_bytes: dict[tuple, int] = defaultdict(int)
    requests: dict[tuple[str, int], int] = defaultdict(int)  # of loads of shared memory
    for one in sample.instructions:
        if one.place.file in files:
            key = (one.place.file, one.place.line, one.space, one.operation)
            counted[key] += one.requests * one.bytes
            most_bytes[key] = max(most_bytes[key], one.bytes)
            requests[key[:2]] += one.requests if key[2:] == ("shared", "ld") else 0
    moving: dict[tuple, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    least_width: dict[tuple, float] = defaultdict(lambda: math.inf)
    guarded: set[tuple] = set()
    with_key: dict[tuple, set[int]] = defaultdict(set)
    for index in runs:
        for instruction in blocks[index].instructions:
            where = line_of(instruction, files)
            space = _SPACES.get(instruction.name)
            if where is None or space is None or (*where, *space) not in counted:
                continue
            key = (*where, *space)
            moving[key][runs[index]] += instruction.bytes
            least_width[key] = min(least_width[key], instruction.bytes)
            with_key[key].add(index)
            if instruction.guard:
                guarded.add(key)
    passed: dict[str, dict[int, int]] = defaultdict(dict)
    busiest: dict[str, dict[int, int]] = defaultdict(dict)  # likewise, how often the busiest warp came
    for place, of in sample.passed.items():
        if place.file in files:
            passed[place.file][place.line] = of.warps
            busiest[place.file][place.line] = of.most

    def passed_at(where: tuple[str, int] | None, of: dict[str, dict[int, int]] = passed) -> int:
        """How often warps came there: a line is of the basic block that begins there or nearest before."""
        before = [line for line in of[where[0]] if line <= where[1]] if where and where[0] in of else []
        return of[where[0]][max(before)] if before else 0

    # Operations of floating point of each line, which no compiler leaves out: where a line's code has more of
    # them for a byte than its text, it has fewer loads than the text, and the bytes are only a limit.
    floating: dict[tuple[str, int], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for index in runs:
        for instruction in blocks[index].instructions:
            where = line_of(instruction, files)
            if where is not None and instruction.name in _FLOATS:
                floating[where][runs[index]] += 1 + (instruction.name in _TWO)

    def operations_at(where: tuple[str, int]) -> float:
        """How many operations the line's warps made, at least. The simulator's compiler may have unrolled its
        loop, and warps came once for several rounds: a round has at most as many loads as the text has
        subscripts, and fewer where operands stay in registers."""
        row = row_of(where)
        loaded = row.partition("+=")[2] or row  # what is added to stays in registers
        rounds = requests[where] / max(1, len(_SUBSCRIPTED.findall(loaded)))
        return max(passed_at(where), rounds) * _operations_of(row)

    def loads_left_out(key: tuple, terms: dict[int, float]) -> bool:
        of_line, row = floating.get(key[:2]), row_of(key[:2])
        if key[2:] != ("shared", "ld") or not of_line or not _MULTIPLY_ADD.search(row):
            return False
        each = sum(terms.values()) / sum(of_line.values())
        return each < 0.6 * counted[key] / max(1, operations_at(key[:2]))

    # A wide load may bring what the text reads in other lines, which then have no load of their own.
    without_load = {key[2:] for key in counted if key not in moving}

    def brings_more(key: tuple) -> bool:
        return key[3] == "ld" and key[2:] in without_load and least_width[key] > most_bytes[key]

    loops, called = loops_of(blocks), {block.index for block in blocks if block.is_called}
    begins = called | {0}
    wanted = 0.0
    first_slack = len(program.costs)
    for key, terms in moving.items():
        width = max(terms.values()) / max(1, round(max(terms.values()) / 4))
        terms = {run: of / width for run, of in terms.items()}
        own = with_key[key]
        if not own & called and all(loops[index] == -1 for index in own):
            # A warp runs it once: what the text does again and again there, stays in a register meanwhile.
            counted[key] = min(counted[key], width * warps * sum(terms.values()))
        if loads_left_out(key, terms):
            program.at_most.append((terms | {program.variable(_BYTES): -1.0}, counted[key] / width))
            program.nearly(dict(floating[key[:2]]), float(operations_at(key[:2])), _FLOW, at_least=True)
            continue
        wanted += counted[key] / width
        program.nearly(terms, counted[key] / width, _BYTES, at_least=key in guarded or brings_more(key))
    slacks = slice(first_slack, len(program.costs))

    # Barriers, shuffles and votes are counted too, though not by line.
    for names, value, cost in (
        (("BAR",), sample.barriers, _BARRIERS),
        (("SHFL", "VOTE", "MATCH", "REDUX"), sample.warp_operations, _FLOW),
    ):
        terms = {
            run: float(sum(i.name in names and not _is_named(i) for i in blocks[index].instructions))
            for index, run in runs.items()
        }
        terms = {run: number for run, number in terms.items() if number}
        if terms and value:
            program.nearly(terms, float(value), cost)

    # No block runs more often than its lines, and lines of loops that have no loads run as often as counted.
    has_loads = {index for key, own in with_key.items() if not brings_more(key) for index in own}
    # A loop runs where warps enter it, and for each no oftener than the busiest one came to its lines.
    # (A loop that nobody enters would keep the rule of flow, too.)
    for index, run in runs.items():
        most = max((passed_at(line_of(i, files), busiest) for i in blocks[index].instructions), default=0)
        around = {other for other in runs if loops[other] == loops[index] != -1}
        for inside in (around, {index} if index in blocks[index].follows else set()):
            if most and inside and not inside & begins:
                ways = [edge for (source, to), edge in edges.items() if to in inside and source not in inside]
                terms = {run: 1.0, program.variable(_LINES): -1.0} | {way: -float(most) for way in ways}
                program.at_most.append((terms, 0.0))
    # An unrolled loop makes whole rounds, and its remainder what they leave.
    nest = list(nest_of(blocks, set(runs)))
    innermost = set().union(*(inside for inside, _ in nest))
    for inside, around in nest:
        entered = 1
        if len(around) < len(runs):
            entered = _entered(blocks, inside, around, files, lambda where: passed_at(where, busiest))
        for key, terms in moving.items():
            most = float(passed_at(key[:2], busiest)) / entered
            rows = whole_rounds(
                inside, around, innermost, runs, edges, terms, counted[key], warps * entered, most
            )
            for limited, at_most in rows:
                program.at_most.append((limited | {program.variable(_LINES): -1.0}, at_most))
    lines_with_loads = {
        where for index in has_loads for i in blocks[index].instructions if (where := line_of(i, files))
    }
    by_line: dict[tuple, dict[int, list[MachineInstruction]]] = defaultdict(lambda: defaultdict(list))
    for index in runs:
        own = [known for i in blocks[index].instructions if (known := passed_at(line_of(i, files)))]
        if own:
            program.at_most.append(({runs[index]: 1.0, program.variable(_LINES): -1.0}, float(max(own))))
        for instruction in blocks[index].instructions if loops[index] != -1 else ():
            for depth, (file, line) in enumerate(instruction.lines):
                where = file, files.start(file, line)
                if where not in lines_with_loads and passed_at(where):
                    by_line[(*where, depth > 0)][index].append(instruction)
    # Nor do lines run less often than warps came to them: in all blocks; outside of loops, where they begin.
    working: dict[tuple[str, int], set[int]] = defaultdict(set)
    for index in runs:
        for instruction in blocks[index].instructions:
            if (where := line_of(instruction, files)) and kind_of(instruction) != "control":
                working[where].add(index)
    for (file, line), own in working.items():
        if line in passed[file] and not own & has_loads:
            terms = {runs[index]: 1.0 for index in own}
            if not own & begins and all(loops[index] == -1 for index in own):
                terms = {edge: 1.0 for (source, to), edge in edges.items() if to in own and source not in own}
            program.nearly(terms, float(passed[file][line]), _LINES, at_least=True)
    for (file, line, is_caller), of_blocks in by_line.items():
        times = _times(of_blocks, row_of((file, line)) if file in files else "", is_caller)
        if times:
            terms = {runs[index]: number for index, number in times.items()}
            program.nearly(terms, float(passed_at((file, line))), _LINES)
    solution = program.solve()
    found = np.zeros(len(blocks))
    for index, run in runs.items():
        found[index] = max(0.0, solution[run])
    missed = float(solution[slacks].sum() / wanted) if wanted else 0.0
    return Flow(found, missed, {ends: max(0.0, solution[edge]) for ends, edge in edges.items()})
