"""Where things are: the sources, the recorded results, and the folders that libraries are built in.

fgn runs from its clone, where `cuda_c/`, `profiles/`, `bugs/` and `notebooks/` lie beside the package, or
from an installed wheel, which carries them as `fgn/data/`, with a simulator that was built beforehand.

Libraries are built into `build/` of a clone that its user may write to, else into a folder of the user's own:
$FGN_CACHE, or `fgn` in the platform's folder for caches ($XDG_CACHE_HOME or ~/.cache; ~/Library/Caches on
macOS).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
IN_CLONE = (_PACKAGE.parent / "cuda_c" / "fgn.h").is_file()
ROOT = _PACKAGE.parent if IN_CLONE else _PACKAGE / "data"
SOURCES = ROOT / "cuda_c"
PREBUILT = ROOT / "prebuilt"
CLONE_BUILD = ROOT / "build"

# The cache holds at most so many bytes; what was used longest ago is removed first. A library for every GPU
# architecture has some 20 MB, a live kernel 50 KB.
CACHE_LIMIT = 1 << 30


def cache_folder() -> Path:
    """The user's own folder for what is built: $FGN_CACHE, or `fgn` in the platform's folder for caches."""
    if os.environ.get("FGN_CACHE"):
        return Path(os.environ["FGN_CACHE"]).expanduser().absolute()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "fgn"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fgn"


def is_writable(folder: Path) -> bool:
    """Whether files can be made in the folder, which need not exist yet."""
    existing = folder
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent
    try:
        with tempfile.TemporaryFile(dir=existing):
            return True
    except OSError:
        return False


def uses_cache() -> bool:
    """Whether libraries are built in the user's own folder, and not in the clone."""
    return bool(os.environ.get("FGN_CACHE")) or not IN_CLONE or not is_writable(CLONE_BUILD)


def build_folder() -> Path:
    """Where libraries are built: `build/` of the clone, or `cache_folder()`."""
    return cache_folder() if uses_cache() else CLONE_BUILD


def _entries() -> list[tuple[float, int, Path]]:
    """What the cache holds: when it was last used, its bytes, its folder."""
    found = []
    folder = cache_folder()
    for entry in [*folder.glob("lib-*"), *folder.glob("live/*/")]:
        files = [path for path in entry.rglob("*") if path.is_file()]
        if files:
            size = sum(path.stat().st_size for path in files)
            found.append((max(path.stat().st_atime for path in files), size, entry))
    return sorted(found)


def prune_cache(limit: int = CACHE_LIMIT, keep: Path | None = None) -> int:
    """Removes what was used longest ago until the cache holds at most `limit` bytes. Returns the removed
    bytes.

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
