"""PyTorch's own headers for device code: c10::Half and its relatives, c10::complex, WARP_SHFL(),
at::numeric_limits.

They come from the installed torch, and are not translated: a C++ compiler takes them as they are, and
sim/cpp/c10/util/Half.h includes those that kernels use. Without torch the two types of 16 bits are CUDA's.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path

# The names of theirs in a kernel's text, whatever it includes.
NAMES = r"c10::|at::(?!cuda::(?:get|CUDA))|WARP_(?:SHFL|BALLOT)|C10_(?:WARP|HOST|DEVICE|LAUNCH|UNUSED|LIKELY)"
_USED = "sim/cpp/c10/"


@functools.cache
def headers() -> Path | None:
    """torch's folder of headers; None if it is not installed, or has them elsewhere."""
    try:
        found = importlib.util.find_spec("torch")
    except ValueError:
        return None
    folders = [Path(place) / "include" for place in (found and found.submodule_search_locations) or ()]
    return next((folder for folder in folders if (folder / "ATen/cuda/NumericLimits.cuh").is_file()), None)


def flags(text: str) -> tuple[str, ...]:
    """Flags for a C++ compiler of this text: a folder to search first."""
    folder = headers() if _USED in text else None
    return (f"-I{folder}", "-DSIM_HAS_TORCH") if folder else ()
