"""The part of a multiprocessor that an instruction of the machine code keeps busy, for how long, and after
how many clocks its result is ready.

Names of instructions: NVIDIA, CUDA Binary Utilities, "Instruction Set Reference". Threads per clock: CUDA C++
Programming Guide, "Throughput of Native Arithmetic Instructions", in each card's file.
"""

from __future__ import annotations

import re

from cudasim.predicting.cards import Card
from cudasim.predicting.machine_code import MachineInstruction

_FP32 = ("FFMA", "FADD", "FMUL", "FFMA32I", "FADD32I", "FMUL32I", "FSWZADD", "FFMA2", "FADD2", "FMUL2")
_FP64 = ("DFMA", "DADD", "DMUL", "DSETP", "DMNMX")
_FP16 = ("HFMA2", "HADD2", "HMUL2", "HSETP2", "HSET2", "HMNMX2", "HFMA2_MMA")
_CONVERT = ("F2F", "F2I", "I2F", "FRND", "I2I", "F2FP", "I2FP", "F2IP", "I2IP")
_TENSOR = ("HMMA", "IMMA", "DMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA", "BGMMA", "QMMA", "OMMA", "UTCHMMA")
_MEMORY = (
    *("LDG", "STG", "LD", "ST", "ATOM", "ATOMG", "RED", "REDG", "LDL", "STL", "LDGSTS", "TEX", "TLD", "TLD4"),
    *("LDS", "STS", "LDSM", "STSM", "ATOMS", "SULD", "SUST", "MATCH", "REDUX"),
)
# Control flow, barriers and waits take an issue slot but no pipe.
_CONTROL = (
    *(
        "BRA",
        "BRX",
        "JMP",
        "CALL",
        "RET",
        "EXIT",
        "BSSY",
        "BSYNC",
        "BREAK",
        "BMOV",
        "NOP",
        "DEPBAR",
        "WARPSYNC",
    ),
    *(
        "BAR",
        "MEMBAR",
        "ERRBAR",
        "CCTL",
        "YIELD",
        "NANOSLEEP",
        "LDGDEPBAR",
        "SYNCS",
        "ENDCOLLECTIVE",
        "FENCE",
    ),
    *("ELECT", "KILL", "BPT", "WARPGROUP", "ACQBULK", "PREEXIT", "CS2R", "S2R", "LDC", "R2P", "P2R", "PLOP3"),
)


def kind_of(instruction: MachineInstruction) -> str:
    """The kind, a key of a card's lanes; or "tensor"; or "control"."""
    name = instruction.name
    if name in _FP32:
        return "fp32"
    if name.startswith("IMAD") or name in ("IDP", "IDP4A", "VABSDIFF4"):
        return "imad"
    if name in _FP64:
        return "fp64"
    if name in _FP16:
        return "fp16"
    if name == "MUFU":
        return "special"
    if name in _CONVERT:
        return "convert64" if "64" in instruction.opcode else "convert"
    if name in _TENSOR:
        return "tensor"
    if name == "SHFL":
        return "shuffle"
    if name in _MEMORY or name.startswith("UBLK") or name.startswith("UTMA"):
        return "lsu"
    if name in _CONTROL:
        return "control"
    if name in ("POPC", "FLO", "BREV"):
        return "popc"
    if name[0] == "U" or name in ("R2UR", "S2UR", "VOTEU", "ULDC"):
        return "uniform"
    return "int32"


def tensor_operations(instruction: MachineInstruction) -> tuple[float, str]:
    """The operations of a warp's instruction on tensor cores, and the type that sets its rate."""
    shape = re.search(r"\.(\d+)x(\d+)x(\d+)", instruction.opcode)
    text = instruction.opcode
    if shape:  # of a warpgroup of four warps
        m, n, k = (int(size) for size in shape.groups())
        return 2.0 * m * n * k / 4, _tensor_type(text)
    digits = re.search(r"\.(884|1684|1688|16816|16832|16864|8816|8832)(?=\.|$)", text)
    m, n, k = {
        "884": (8, 8, 4), "1684": (16, 8, 4), "1688": (16, 8, 8), "16816": (16, 8, 16),
        "16832": (16, 8, 32), "16864": (16, 8, 64), "8816": (8, 8, 16), "8832": (8, 8, 32),
    }.get(digits[1] if digits else "", (16, 8, 16))  # fmt: skip
    return 2.0 * m * n * k, _tensor_type(text)


def _tensor_type(text: str) -> str:
    if "TF32" in text or ".1684" in text:
        return "tf32"
    if text.startswith(("IMMA", "IGMMA")):
        return "int8"
    if text.startswith("DMMA"):
        return "fp64"
    return "bf16" if "BF16" in text else "fp16"


def busy_of(instruction: MachineInstruction, card: Card, mma_efficiency: float) -> tuple[str, float]:
    """The pipe that an instruction of a warp occupies, and for how many clocks of the multiprocessor."""
    kind = kind_of(instruction)
    if kind == "control":
        return kind, 0.0
    if kind == "tensor":
        operations, of = tensor_operations(instruction)
        rate = card.tensor.get(of) or card.tensor.get("fp16") or 1.0
        is_group = re.search(r"\.\d+x\d+x\d+", instruction.opcode)
        return kind, operations / (rate if is_group else rate * mma_efficiency)
    # A multiply-add with a result of 64 bits keeps its pipe busy for twice as long: of a product of matrices
    # with two of them for each k ncu says 65 % on an H100, which those and its floats then make up.
    clocks = 2.0 if kind == "imad" and ".WIDE" in instruction.opcode else 1.0
    return kind, clocks * 32.0 / card.lanes[kind]


_LATENCY = {
    "fp32": "fma", "imad": "imad", "fp64": "fp64", "fp16": "fma", "special": "special", "convert": "convert",
    "convert64": "convert", "shuffle": "shuffle", "tensor": "tensor", "popc": "convert",
}  # fmt: skip


def latency_of(instruction: MachineInstruction, card: Card, of_loads: float) -> float:
    """Clocks until the result can be used. of_loads: of a load of global or local memory at this place."""
    name = instruction.name
    if name in ("LDS", "LDSM"):
        return card.latency["shared"]
    if name in ("LDG", "LD", "LDL", "TEX", "TLD", "TLD4", "LDGSTS", "SULD"):
        return of_loads
    if name in ("LDC", "ULDC"):
        return card.latency["shared"]
    if name == "ATOMS":
        return card.latency["atomic_shared"]
    if name in ("ATOM", "ATOMG"):
        return card.latency["atomic_global"]
    if name in ("S2R", "S2UR"):
        return card.latency["shared"]
    if name == "BAR":
        return card.latency["barrier"]
    if kind_of(instruction) == "uniform":
        return 2 * card.latency["alu"]
    return card.latency[_LATENCY.get(kind_of(instruction), "alu")]
