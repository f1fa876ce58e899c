"""Digests of texts and of files: what is built carries that of what it was built from."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path


def digest(*parts: str | bytes) -> str:
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()


# For each new kernel it is asked whether the simulator's hundred objects are of these sources and flags.
kept_digest = functools.lru_cache(1024)(digest)


def as_of(path: str | Path) -> tuple[int, int, int, int]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@functools.lru_cache(512)
def digest_of_files(files: tuple[tuple, ...], *before: str) -> str:
    """files: of each its path, its name and what `as_of()` tells, so that an unchanged file is not read
    again for each new kernel."""
    return digest(*before, *(part for path, name, _ in files for part in (name, Path(path).read_bytes())))


def _headers_in(folder: str | Path, before: str = "") -> Iterator[tuple]:
    """Of each header: its path, its name below the folder, and what `as_of()` tells."""
    with os.scandir(folder) as entries:
        found = sorted(entries, key=lambda entry: entry.name)
    for entry in found:
        # While a wheel is made, build/ has a second copy of all sources.
        if entry.name.startswith(".") or (entry.name == "build" and not before):
            continue
        name = f"{before}{entry.name}"
        if entry.is_dir():
            yield from _headers_in(entry.path, f"{name}/")
        elif name.endswith(".h"):
            yield entry.path, name, as_of(entry.path)


def digest_of_headers(folders: Iterable[Path]) -> str:
    return digest_of_files(tuple(header for folder in folders for header in _headers_in(folder)))
