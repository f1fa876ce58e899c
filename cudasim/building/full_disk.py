"""A full disk: a message that names the disk and the remedy, and replaces the assembler's."""

from __future__ import annotations

import errno
import re
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path

from cudasim.building.places import cache_folder, cache_variable

_WORDS = re.compile(r"no space left on (?:device|the disk)|disk quota exceeded", re.I)


def is_full(error: str | Exception) -> bool:
    """Whether a compiler's message, or a system error, comes from a full disk."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return bool(_WORDS.search(str(error)))


def words(folder: Path) -> str:
    """The message. folder: where the library is built; a compiler has temporary files elsewhere."""
    places = [folder]
    with suppress(OSError):  # where not even an empty file can be made
        places.append(Path(tempfile.gettempdir()))
    free = {place: shutil.disk_usage(place).free for place in places if place.exists()}
    where = " or ".join(f"{place} ({free[place] >> 20} MB free)" for place in free)
    return (
        f"no space left on the disk of {where}: make some ({cache_folder()} may be emptied), or "
        f"set {cache_variable()}, and TMPDIR for the compiler's own files, to folders on a disk that has some"
    )
