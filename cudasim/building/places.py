"""Where things are: the simulator's sources, and the folders in which libraries and kernels are built.

cudasim runs from its clone or from an installed wheel, which carries prebuilt simulators.

Built files go into `build/` of a writable clone, else into a folder of the user: $CUDASIM_CACHE, or `cudasim`
in the platform's folder for caches ($XDG_CACHE_HOME or ~/.cache; ~/Library/Caches on macOS).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1]
PREBUILT = SOURCES / "prebuilt"
IN_CLONE = (SOURCES / "pyproject.toml").is_file()
CLONE_BUILD = SOURCES.parent / "build" if IN_CLONE else None

# The name of each source folder in a library that was built elsewhere. A program with its own kernels adds
# their folder.
MAPPED = {"/cudasim": SOURCES}

# Where a kernel from a cell or a string finds headers in quotes, besides the folders that the user names.
HEADER_FOLDERS = [SOURCES]

# The packages between a user's line and a launch, which a warning at that line skips.
PACKAGES = [SOURCES]

# Variables that may name the user's cache; the first one that is set counts. A program with its own variable
# puts it in front.
CACHE_VARIABLES = ["CUDASIM_CACHE"]

# The cache holds at most this many bytes; the least recently used entries are removed first. A library for
# every GPU architecture has some 20 MB, a live kernel 50 KB.
CACHE_LIMIT = 1 << 30


def cache_variable() -> str:
    """The variable to name in a message about the cache."""
    return CACHE_VARIABLES[0]


def home_folder() -> Path:
    """The user's home folder. A user without one, such as a bare number in a container, gets a path where
    nothing can be written, so that a later write fails with a clear error."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")


def cache_folder() -> Path:
    """The user's folder for built files: $CUDASIM_CACHE, or `cudasim` in the platform's folder for caches."""
    for variable in CACHE_VARIABLES:
        if os.environ.get(variable):
            return Path(os.environ[variable]).expanduser().absolute()
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "cudasim"
    return home_folder() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "cudasim"


def is_writable(folder: Path) -> bool:
    """Whether files can be made in the folder, which need not exist yet."""
    existing = folder
    # Path.exists() raises if a folder above is not readable.
    while not os.path.exists(existing) and existing != existing.parent:
        existing = existing.parent
    try:
        with tempfile.TemporaryFile(dir=existing):
            return True
    except OSError:
        return False


def uses_cache(clone_build: Path | None = CLONE_BUILD) -> bool:
    """Whether libraries are built in the user's folder, and not in this folder of a clone."""
    is_named = any(os.environ.get(variable) for variable in CACHE_VARIABLES)
    return is_named or clone_build is None or not is_writable(clone_build)


def build_folder(clone_build: Path | None = CLONE_BUILD) -> Path:
    """Where libraries are built: this folder of a clone, or `cache_folder()`."""
    return cache_folder() if uses_cache(clone_build) else clone_build


def _entries() -> list[tuple[float, int, Path]]:
    """The entries of the cache: time of last use, bytes, folder."""
    found = []
    folder = cache_folder()
    for entry in [*folder.glob("lib-*"), *folder.glob("live/*/")]:
        files = [path for path in entry.rglob("*") if path.is_file()]
        if files:
            size = sum(path.stat().st_size for path in files)
            found.append((max(path.stat().st_atime for path in files), size, entry))
    return sorted(found)


def prune_cache(limit: int = CACHE_LIMIT, keep: Path | None = None) -> int:
    """Removes the least recently used entries until the cache holds at most `limit` bytes. Returns the number
    of removed bytes.

    keep: an entry that stays, however large it is.
    """
    entries = _entries()
    total, removed = sum(size for _, size, _ in entries), 0
    for _, size, entry in entries:
        if total - removed <= limit:
            break
        if entry != keep:
            shutil.rmtree(entry, ignore_errors=True)
            removed += size
    return removed
