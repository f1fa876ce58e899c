"""torch for references and inputs of puzzles, imported when one of them is computed.

Its import takes seconds. Who reads, draws or tries a puzzle in a notebook does not wait for it, since checks
run in another process, and puzzles of one's own that are in numpy do without.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec

from cudasim.building.compilers import MissingToolError


def is_torch_there() -> bool:
    """Whether torch is installed; it is not imported."""
    return find_spec("torch") is not None


def expect_torch() -> None:
    """MissingToolError where torch is not installed."""
    if not is_torch_there():
        raise MissingToolError(
            "torch is not installed, and this puzzle computes its inputs and what is right by it: "
            "pip install torch. A puzzle of your own does without, with in_numpy=True"
        )


class _Late:
    def __getattr__(self, name: str):
        expect_torch()
        return getattr(importlib.import_module("torch"), name)


torch = _Late()
