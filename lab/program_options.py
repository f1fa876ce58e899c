"""Options by which a program is told its sizes and how often it repeats, as its sources read and name them.

    printf("Usage: %s <repeat> <input length> <block size>\\n", argv[0]);    1 64 64
    case 'r': n_reps = atoi(optarg); break;                                 -r 2
    if (strcmp(argv[i], "--nsteps") == 0) nsteps = atoi(argv[++i]);         --nsteps 64
    if (strcmp(argv[i], "small") == 0) … else if (strcmp(argv[i], "large")  small, where `make run` says large
    {"verify", 0, NULL, 'v'}                                                --verify

Whether a number is a size nobody knows: those that count threads, blocks or devices, and whose names are
single facts such as a seed, stay as they are. The program's own verification tells.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from smaller_sources import REPEATS

_LINES_OF_USAGE = 5
_FEW = "2"  # for some demand more than one
_TO_NUMBER = r"(?:ato(?:i|l|ll)|strto(?:l|ul|ll|ull)|stoi|stol|parseU?Int)\s*\("
_CASE = re.compile(rf"case\s*'(\w)'\s*:\s*\{{?\s*([\w.>-]+)\s*=\s*(?:\([\w ]+\)\s*)?(?:std::)?{_TO_NUMBER}")
# The option's name, or two of them, and what is made a number before the next one is looked for.
_COMPARED = re.compile(
    r'"(?P<option>--?[A-Za-z][\w-]*)"(?P<between>(?:(?!"--?[A-Za-z]|\batof\b|strtod|strtof).){0,200}?)'
    rf"(?:std::)?(?:{_TO_NUMBER})(?P<read>[^;{{]*)",
    re.S,
)
_TO_VERIFY = re.compile(r'\{\s*"(verify)"\s*,\s*(?:0|no_argument)\b')
_ASSIGNED = re.compile(r"([\w.>-]+)\s*=\s*(?:\([\w ]+\)\s*)?$")
_ADDRESS = re.compile(r"&\s*\(?\s*([\w.>-]+)")
_IS_REPEATED = re.compile(rf"{REPEATS.pattern}|reps?\b|times\b|warm", re.I)
_NO_SIZE = re.compile(
    r"seed|thread|block|gpu|dev|platform|type|mode|id\b|kernel|verb|verif|check|debug|grid_|tol|thresh|factor",
    re.I,
)

# What a program's usage allows, and no rule here finds.
_OFFERED = {"topk-cuda": "1 1"}  # one row: 100 calls before the first one counts


def offered(program: str) -> list[list[str]]:
    return [_OFFERED[program].split()] if program in _OFFERED else []


@dataclass(frozen=True)
class Options:
    repeats: tuple[str, ...]
    sizes: tuple[str, ...]
    switches: tuple[str, ...]  # by which it verifies itself
    has_small: bool

    def added_to(self, arguments: list[str], most: int | None = None) -> list[str]:
        """The arguments, with few repeats and, with `most`, sizes where `make run` names none."""
        new = [name for name in (*self.repeats, *(self.sizes if most else ())) if name not in arguments]
        more = [word for name in new for word in (name, _FEW if name in self.repeats else str(most))]
        told = ["small" if self.has_small and word == "large" else word for word in arguments]
        return [*told, *more, *(of for of in self.switches if of not in told)]


def named_arguments(sources: Iterable[Path]) -> list[str]:
    """What the message on a program's usage calls its arguments: <repeat>, <input length>."""
    for path in sources:
        lines = path.read_text(errors="replace").splitlines()
        for number, line in enumerate(lines):
            if re.search(r'"\s*usage\b', line, re.I):
                said = re.findall(r'"([^"]*)"', "\n".join(lines[number : number + _LINES_OF_USAGE]))
                return re.findall(r"<([^<>]+)>", "".join(said))
    return []


def reduced_by_name(arguments: list[str], names: list[str], most: int) -> list[list[str]]:
    """The arguments with no number above `most`, and 1 for how often something is repeated; none where the
    message does not name each of them."""
    if not names or len(names) != len(arguments):
        return []
    limits = [1 if _IS_REPEATED.search(name) else most for name in names]
    pairs = zip(arguments, limits, strict=True)
    return [[str(min(int(of), limit)) if of.isdigit() else of for of, limit in pairs]]


def options(sources: Iterable[Path]) -> Options:
    repeats, sizes, switches, has_small = {}, {}, {}, False
    for path in sources:
        text = path.read_text(errors="replace")
        has_small |= '"small"' in text
        if "argv" not in text:
            continue
        found = [(f"-{of[1]}", of[2]) for of in _CASE.finditer(text)]
        for of in _COMPARED.finditer(text):
            named = _ASSIGNED.search(of["between"]) or _ADDRESS.search(of["read"])
            found.append((of["option"], f"{of['option']} {named[1] if named else ''}"))
        switches |= {f"--{of[1]}": None for of in _TO_VERIFY.finditer(text)}
        for option, name in found:
            if _IS_REPEATED.search(name):
                repeats[option] = None
            elif not _NO_SIZE.search(name):
                sizes[option] = None
    return Options(tuple(repeats), tuple(sizes), tuple(switches), has_small)
