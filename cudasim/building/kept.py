"""What is compiled from a text is kept for the next time, in a folder whose name tells what it was made from.

The name has two halves: of all that is known without a compiler, and of the compiler with its flags. So where
the compiler has gone since, what one has made of the very same is found; and what it has refused, it refuses
again, since another way to write the text may have been taken then.
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
    """The folder of what is made from `known` by this compiler with these flags. kind: the folder above."""
    return build_folder() / kind / f"{_name(known)}-{digest(*by)[:16]}"


def is_ready(path: Path) -> bool:
    """Whether the file was built there before. Nothing is locked, and nothing is written."""
    if not os.path.lexists(path):
        return False
    make_folder(path.parent, build_folder())  # it is there: whether this user's own
    return is_sealed(path)


@contextmanager
def building(path: Path) -> Iterator[bool]:
    """Holds the file's folder; yields whether the file has to be built. Afterwards it is sealed, with a table
    of its lines beside a library, or what the compiler has refused is noted."""
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
    """What any compiler has made from `known`, where there is none now. BuildError where it was refused;
    MissingToolError where it was not made on this processor."""
    paths = [folder / file for folder in sorted((build_folder() / kind).glob(f"{_name(known)}-*/"))]
    if ready := next(filter(is_ready, paths), None):
        return ready
    for path in paths:
        if _refusal(path).exists():
            raise BuildError(read_text(_refusal(path)))
    raise MissingToolError(f"{missing}; nothing that was compiled from this text before is in the cache")
