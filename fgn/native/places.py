"""Where things are: the kernels, the recorded results, the notebooks.

fgn runs from its clone, where `cuda_c/`, `profiles/`, `bugs/` and `notebooks/` are beside the package, or
from an installed wheel, which carries them as `fgn/data/`, with a prebuilt library. Libraries are built where
cudasim builds its own (cudasim/building/places.py).
"""

from __future__ import annotations

from pathlib import Path

from cudasim.building import places

_PACKAGE = Path(__file__).resolve().parents[1]
IN_CLONE = (_PACKAGE.parent / "cuda_c" / "fgn.h").is_file()
ROOT = _PACKAGE.parent if IN_CLONE else _PACKAGE / "data"
SOURCES = ROOT / "cuda_c"
PREBUILT = ROOT / "prebuilt"
CLONE_BUILD = ROOT / "build" if IN_CLONE else None

places.MAPPED["/fgn/cuda_c"] = SOURCES
# Kernels of cells may include fgn's headers, as "ptx/tma.h".
places.HEADER_FOLDERS.append(SOURCES)
places.PACKAGES.append(_PACKAGE)
places.CACHE_VARIABLES.insert(0, "FGN_CACHE")
