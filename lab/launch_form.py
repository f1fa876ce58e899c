"""A launch in the tables of calls: `at(file, kernel)[grid, block](arguments)`, as kernels are called."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial


class At:
    """A kernel that waits for `[grid, block]` or `[grid, block, bytes of dynamic shared memory]`.

    make: takes grid, block, what the call is given, and perhaps `shared`.
    """

    def __init__(self, make: Callable):
        self.make = make

    def __getitem__(self, launch: tuple) -> Callable:
        grid, block, *shared = launch
        return partial(self.make, grid, block, **dict(zip(["shared"], shared, strict=False)))
