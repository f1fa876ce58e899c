"""Imports torch only when a reference or an input of a puzzle is computed.

Its import takes seconds. Reading, drawing or trying a puzzle in a notebook does not wait for it, because
checks run in another process; puzzles in numpy do not need it.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec

from cudasim.building.compilers import MissingToolError


def is_torch_there() -> bool:
    """Whether torch is installed; it is not imported."""
    return find_spec("torch") is not None


def expect_torch() -> None:
    """Raises MissingToolError if torch is not installed."""
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
