"""Digests of texts and of files: what is built carries that of what it was built from."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable
from glob import glob
from pathlib import Path


def digest(*parts: str | bytes) -> str:
    state = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()


def as_of(path: str | Path) -> tuple[int, int, int, int]:
    status = os.stat(path)
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


@functools.lru_cache(512)
def digest_of_files(files: tuple[tuple, ...], *before: str) -> str:
    """files: of each its path, its name and what `as_of()` tells, so that an unchanged file is not read
    again for each new kernel."""
    return digest(*before, *(part for path, name, _ in files for part in (name, Path(path).read_bytes())))


def digest_of_headers(folders: Iterable[Path]) -> str:
    # While a wheel is made, build/ has a second copy of all sources.
    return digest_of_files(
        tuple(
            (path, name, as_of(path))
            for folder in folders
            for name in sorted(
                glob("**/*.h", root_dir=folder, recursive=True), key=lambda name: name.split("/")
            )
            if not name.startswith("build/")
            for path in (os.path.join(folder, name),)
        )
    )
