"""Keeps what was compiled from a text, in a folder whose name is the cache key.

The key has two halves: everything that is known without a compiler, and the compiler with its flags. So a
result is found even after its compiler was removed. A refusal is kept too, because the text may then have
been rewritten in another way.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cudasim.building import full_disk
from cudasim.building.compilers import MissingToolError, processor
from cudasim.building.library import BuildError, digest, held
from cudasim.building.lines import write_table
from cudasim.building.own_files import is_sealed, make_folder, read_text, seal
from cudasim.building.places import build_folder


def _name(known: Iterable[str]) -> str:
    return digest(*known, processor())[:16]


def folder_of(kind: str, known: Iterable[str], by: Iterable[str]) -> Path:
    """The folder for what this compiler makes from `known` with these flags. kind: the folder above."""
    return build_folder() / kind / f"{_name(known)}-{digest(*by)[:16]}"


def is_ready(path: Path) -> bool:
    """Whether the file was built before. This neither locks nor writes anything."""
    if not os.path.lexists(path):
        return False
    make_folder(path.parent, build_folder())  # it is there: whether this user's own
    return is_sealed(path)


@contextmanager
def building(path: Path) -> Iterator[bool]:
    """Locks the file's folder; yields whether the file has to be built. Afterwards it seals the file, with a
    table of lines beside a library, or notes the compiler's refusal."""
    if is_ready(path):
        yield False
        return
    with held(path.parent):
        is_missing = not is_sealed(path)  # another process may have built it meanwhile
        try:
            yield is_missing
        except BuildError as error:
            if not full_disk.is_full(error):
                _refusal(path).write_text(str(error))
            raise
        if is_missing:
            if path.suffix == ".so":
                with suppress(MissingToolError):  # for who will have no addr2line any more
                    write_table(path)
            seal(path)


def _refusal(path: Path) -> Path:
    return path.with_suffix(".refused")


def made_before(kind: str, known: Iterable[str], file: str, missing: MissingToolError) -> Path:
    """What any earlier compiler has made from `known`, for a machine without a compiler. BuildError if it was
    refused; MissingToolError if it was not made on this processor."""
    paths = [folder / file for folder in sorted((build_folder() / kind).glob(f"{_name(known)}-*/"))]
    if ready := next(filter(is_ready, paths), None):
        return ready
    for path in paths:
        if _refusal(path).exists():
            raise BuildError(read_text(_refusal(path)))
    raise MissingToolError(f"{missing}; nothing that was compiled from this text before is in the cache")
