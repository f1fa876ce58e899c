"""GPUs by name: what a prediction has to know of one, read from a file for each (cards/*.toml)."""

from __future__ import annotations

import difflib
import functools
import os
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path

FOLDER = Path(__file__).resolve().parent / "cards"
_LEAST_L1 = 16 << 10  # bytes, however much shared memory the blocks take
USERS_FOLDER = "CUDASIM_CARDS"  # an environment variable: a folder with cards of one's own


@dataclass(frozen=True)
class Card:
    """A GPU. Each figure's source stands beside it in the card's file, and in `sources`.

    capability: as (9, 0). clock_hz: of the multiprocessors under load. Of a multiprocessor: warps, blocks,
    threads, registers and shared_bytes that it holds, schedulers (each issues one instruction of a warp per
    clock), l1_bytes (with shared memory). register_unit: registers are given to a warp in such pieces;
    shared_unit: bytes to a block. shared_per_block: the most that a block may ask for; shared_reserved: bytes
    that each block takes beside its own.

    lanes: threads per clock and multiprocessor, by kind of instruction. tensor: operations (a multiply-add
    is two) per clock and multiprocessor, by type. latency: clocks until a result can be used.

    shared_bytes_per_clock, l1_bytes_per_clock: of a multiprocessor; l2_bytes_per_clock: of the GPU, read.
    dram_bytes_per_second: of the data sheet; dram_efficiency: the part of it that a copy gets.
    l2_of_dram: ncu's part of L2's peak over that of DRAM's, for streams that read and that write.
    launch_seconds: of a kernel that does nothing. ncu_clock_hz: the clock at which ncu measures, unless it is
    told not to (--clock-control).
    """

    name: str
    capability: tuple[int, int]
    multiprocessors: int
    clock_hz: float
    memory_bytes: int
    warps: int
    blocks: int
    threads: int
    registers: int
    register_unit: int
    most_registers: int
    shared_bytes: int
    shared_per_block: int
    shared_reserved: int
    shared_unit: int
    l1_bytes: int
    l2_bytes: int
    schedulers: int
    shared_bytes_per_clock: float
    l1_bytes_per_clock: float
    l2_bytes_per_clock: float
    dram_bytes_per_second: float
    dram_efficiency: float
    l2_of_dram: Mapping[str, float]
    launch_seconds: float
    ncu_clock_hz: float
    lanes: Mapping[str, float]
    tensor: Mapping[str, float]
    latency: Mapping[str, float]
    sources: Mapping[str, str]

    @property
    def architecture(self) -> str:
        return "sm_{}{}".format(*self.capability)

    @property
    def flops(self) -> float:
        """The rate of float32 without tensor cores, in operations per second."""
        return 2 * self.lanes["fp32"] * self.multiprocessors * self.clock_hz

    @property
    def dram_bandwidth(self) -> float:
        """The bandwidth that a copy reaches, in bytes per second."""
        return self.dram_bytes_per_second * self.dram_efficiency

    @property
    def l2_bandwidth(self) -> float:
        return self.l2_bytes_per_clock * self.clock_hz

    def at_clock(self, clock_hz: float) -> Card:
        """The card with its multiprocessors at another clock: what is beyond their L1 takes the same
        time, and so another number of their clocks."""
        changed, l1 = clock_hz / self.clock_hz, self.latency["l1"]
        beyond = {name: l1 + (self.latency[name] - l1) * changed for name in ("l2", "dram", "atomic_global")}
        l2 = self.l2_bytes_per_clock / changed
        latency = {**self.latency, **beyond}
        return replace(self, clock_hz=clock_hz, l2_bytes_per_clock=l2, latency=latency)

    def l1_beside(self, blocks: float, shared_bytes: int) -> float:
        """The bytes of L1 that so many blocks on a multiprocessor leave beside their shared memory."""
        return max(_LEAST_L1, self.l1_bytes - blocks * (shared_bytes + self.shared_reserved))

    def __repr__(self) -> str:
        return f"<card {self.name}>"


# What a card's file may leave out; between the figures of an H100 and an H200 for streams that only read. It
# may leave out ncu_clock_hz too, which is its clock then.
NOT_MEASURED = {"l2_of_dram": {"read": 1.03, "written": 1.03}}
LANES = (
    "fp32",
    "fp64",
    "fp16",
    "int32",
    "imad",
    "special",
    "convert",
    "convert64",
    "shift",
    "popc",
    "shuffle",
)
LANES = (*LANES, "lsu", "uniform")
LATENCY = ("alu", "fma", "imad", "fp64", "special", "convert", "shuffle", "shared", "l1", "l2", "dram")
LATENCY = (*LATENCY, "atomic_shared", "atomic_global", "barrier", "tensor", "branch")


def _read(path: Path) -> Card:
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: expected a card in TOML, got {error}") from None
    data = NOT_MEASURED | ({"ncu_clock_hz": data["clock_hz"]} if "clock_hz" in data else {}) | data
    wanted = {field.name for field in fields(Card)}
    for key in sorted(wanted ^ set(data)):
        what = "is missing" if key in wanted else "is no figure of a card"
        raise ValueError(f"{path}: {key} {what}")
    for table, names in (("lanes", LANES), ("latency", LATENCY), ("l2_of_dram", NOT_MEASURED["l2_of_dram"])):
        for key in sorted(set(names) ^ set(data[table])):
            what = "is missing" if key in names else "is no figure of a card"
            raise ValueError(f"{path}: {table}.{key} {what}")
    texts = ("name", "sources")
    for key, value in data.items():
        numbers = (
            [*value.values()] if isinstance(value, dict) else value if isinstance(value, list) else [value]
        )
        if key not in texts and not all(isinstance(n, (int, float)) and n >= 0 for n in numbers):
            raise ValueError(f"{path}: {key}: expected numbers, got {value!r}")
    data["capability"] = tuple(data["capability"])
    return Card(**data)


@functools.cache
def _read_once(path: Path, modified: int) -> Card:
    return _read(path)


def _all() -> dict[str, Card]:
    own = os.environ.get(USERS_FOLDER)
    folders = (FOLDER, *((Path(own),) if own else ()))
    found = [
        _read_once(path, path.stat().st_mtime_ns) for of in folders for path in sorted(of.glob("*.toml"))
    ]
    return {card.name: card for card in sorted(found, key=lambda card: (card.capability, card.name))}


def cards() -> list[str]:
    """The names of the GPUs that there are cards of."""
    return list(_all())


def plain_name(name: str) -> str:
    """A GPU's name without case, spaces and the maker's words."""
    return re.sub(r"nvidia|geforce|tesla|sxm\d?|[\s_-]", "", name.lower())


def card(wanted: str | Path | Card) -> Card:
    """The card of a GPU.

    wanted: its name, in which case, spaces and the maker's words do not matter; or the file of a card.
    ValueError for a name that none or several have, and for a file that is no card.
    """
    if isinstance(wanted, Card):
        return wanted
    if isinstance(wanted, Path) or str(wanted).endswith(".toml"):
        return _read(Path(wanted))
    if not isinstance(wanted, str):
        raise TypeError(f"gpu: expected a GPU's name or a card, got {type(wanted).__name__}")
    there = _all()
    plain = plain_name(wanted)
    for matches in (
        lambda name: plain_name(name) == plain,
        lambda name: bool(plain) and plain_name(name).startswith(plain),
    ):
        found = [name for name in there if matches(name)]
        if len(found) == 1:
            return there[found[0]]
        if found:
            raise ValueError(f"gpu: expected one of {', '.join(found)}, got {wanted!r}")
    near = difflib.get_close_matches(plain, list(map(plain_name, there)), 1)
    meant = f" (is it {next(name for name in there if plain_name(name) == near[0])}?)" if near else ""
    raise ValueError(f"gpu: expected one of {', '.join(there)}, got {wanted!r}{meant}")


def of_device(name: str) -> Card | None:
    """The card of a GPU by what its driver calls it, as "NVIDIA H100 80GB HBM3": the longest name that this
    begins with. None: there is no such card."""
    found = [of for of in cards() if plain_name(name).startswith(plain_name(of))]
    return card(max(found, key=len)) if found else None


def cards_command(arguments: list[str]) -> int:
    """`python -m cudasim card [name]`: the names of all cards, or one with the sources of its figures."""
    if not arguments:
        print("\n".join(cards()))
        return 0
    try:
        of = card(" ".join(arguments))
    except ValueError as error:
        print(f"cudasim: {error}", file=sys.stderr)
        return 2
    for field in fields(of):
        value = getattr(of, field.name)
        if field.name == "sources":
            for key, source in value.items():
                print(f"source of {key}: {source}")
        elif isinstance(value, dict):
            print(f"{field.name:24}" + ", ".join(f"{key} {number:g}" for key, number in value.items()))
        else:
            print(f"{field.name:24}{value}")
    return 0
