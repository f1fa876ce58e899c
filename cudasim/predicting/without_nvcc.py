"""The instructions of a kernel without nvcc, estimated from its lines.

Each line that warps reached counts as a block of code: its loads, stores and atomics as the simulator counted
them, an instruction for each operator in its text, two for each address. This ignores the compiler's
unrolling and omissions, so such a prediction has a wider range.
"""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from cudasim.counting.counted import Instruction
from cudasim.predicting.flow import Flow, operators_of
from cudasim.predicting.machine_code import Block, MachineCode, MachineInstruction
from cudasim.predicting.sampling import Sample

_OPCODES = {
    ("global", "ld"): "LDG.E", ("global", "st"): "STG.E", ("global", "atom"): "RED.E",
    ("constant", "ld"): "LDC", ("shared", "ld"): "LDS", ("shared", "st"): "STS", ("shared", "atom"): "ATOMS",
}  # fmt: skip
_WIDTHS = {1: ".U8", 2: ".U16", 4: "", 8: ".64", 16: ".128"}
_REGISTERS = 32  # of a thread, as nobody knows


def _line(file: str, line: int, text: str, runs: int, memory: list[Instruction]) -> list[MachineInstruction]:
    made: list[MachineInstruction] = []

    def add(opcode: str, operands: str = ""):
        made.append(MachineInstruction(16 * len(made), "", opcode, operands, ((file, line),)))

    for one in memory:
        opcode = _OPCODES[one.space, one.operation] + _WIDTHS.get(one.bytes, "")
        for _ in range(max(1, round(one.requests / max(1, runs)))):
            add("IMAD.WIDE", "R2, R4, R5, R6")
            loads = one.operation == "ld"
            add(opcode, f"R{8 + len(made) % 64}, [R2.64]" if loads else "[R2.64], R8")
    is_float = re.search(r"\bfloat|\d\.\d*f?\b|[a-z]f\(", text) or any(one.bytes >= 4 for one in memory)
    for _ in range(operators_of(text)):
        add("FFMA" if is_float else "IADD3", "R3, R8, R9, R3")
    if re.search(r"__syncthreads|\bsync\(", text):
        add("BAR.SYNC", "0x0")
    if "__shfl" in text:
        add("SHFL.BFLY", "PT, R3, R3, 0x1, 0x1f")
    add("ISETP.GE.AND", "P0, PT, R3, R5, PT")
    return made


def estimated(sample: Sample, texts: dict[str, str]) -> tuple[MachineCode, Flow]:
    """Code of no architecture, and how often its blocks run."""
    memory: dict[tuple[str, int], list[Instruction]] = defaultdict(list)
    for one in sample.instructions:
        memory[one.place.file, one.place.line].append(one)
    blocks, runs = [], []
    passed = {(p.file, p.line): of for p, of in sample.passed.items() if p.file in texts}
    for file, line in sorted({*passed, *(where for where in memory if where[0] in texts)}):
        rows = texts[file].splitlines()
        text = rows[line - 1] if 0 < line <= len(rows) else ""
        own = memory.get((file, line), [])
        most = max((one.requests for one in own), default=0)
        times = passed[file, line].warps if (file, line) in passed else most
        blocks.append(Block(len(blocks), _line(file, line, text, times, own), [len(blocks) + 1]))
        runs.append(times)
    code = MachineCode("", "", _REGISTERS, 0, 0, 0, "")
    code.__dict__["blocks"] = blocks
    code.__dict__["instructions"] = [one for block in blocks for one in block.instructions]
    if blocks:
        blocks[-1].follows = [-1]
    return code, Flow(np.array(runs, float), 0.0)
