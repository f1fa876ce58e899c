"""A program with smaller sizes in its source, where it takes none as arguments.

Constants of the host and of the device alike are divided: what has 4096 or more by 16, or by 256 from 65536
on, and how often something is repeated becomes 2. Whether these were sizes nobody knows; the program's own
verification tells, and whoever counts what passes so counts it apart.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

_SMALL, _LARGE = 4096, 65536
_FEW = 2
# Products and shifts of numbers: 4096, 64 * 1024 * 1024, (1 << 24).
_CONSTANT = r"\(*\s*\d+[uUlL]*\s*\)*(?:\s*(?:\*|<<)\s*\(*\s*\d+[uUlL]*\s*\)*)*"
_DEFINED = re.compile(rf"^(\s*#\s*define\s+(\w+)\s+)({_CONSTANT})(?=\s*(?://.*|/\*.*)?$)", re.M)
_DECLARED = re.compile(
    r"(\b(?:int|unsigned|long|size_t|u?int(?:32|64)_t|uint|auto)\s+(\w+)\s*=\s*)"
    rf"({_CONSTANT})(?=\s*[;,])"
)
_IN_LOOPS = re.compile(rf"(\bfor\s*\([^;]*?(\w+)\s*=\s*|;\s*(\w+)\s*<=?\s*)({_CONSTANT})(?=\s*[;)])")
REPEATS = re.compile(r"iter|repeat|runs?\b|loops?\b|trials|steps", re.I)
_NO_SIZE = re.compile(r"seed|rand|mask|prime|mod|magic|poly|hash|key|version|threads|block_?size", re.I)


def _smaller(name: str, constant: str) -> str:
    value = eval(re.sub(r"(?<=\d)[uUlL]+", "", constant))  # digits, products and shifts alone
    if _NO_SIZE.search(name):
        return constant
    if REPEATS.search(name):
        return str(min(value, _FEW))
    suffix = re.search(r"[uUlL]*(?=[\s)]*$)", constant)[0]
    by = 256 if value >= _LARGE else 16 if value >= _SMALL else 1
    return constant if by == 1 else f"{value // by}{suffix}"


def smaller(folder: Path, suffixes: set[str]) -> Path | None:
    """A copy of the folder beside it with smaller sizes; None where it has none that is known."""
    copy = folder.with_name(f"{folder.name}.smaller")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(folder, copy, symlinks=True)
    changed = False
    for path in (path for path in copy.rglob("*") if path.suffix in suffixes and path.is_file()):
        text = path.read_text(errors="surrogateescape")
        new = text
        for pattern in (_DEFINED, _DECLARED, _IN_LOOPS):
            new = pattern.sub(
                lambda found: found[1] + _smaller(found[2] or found[3], found[found.re.groups]), new
            )
        if new != text:
            path.write_text(new, errors="surrogateescape")
            changed = True
    return copy if changed else None
