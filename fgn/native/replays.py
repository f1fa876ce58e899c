"""Launches that come again with the same addresses are replayed as one CUDA graph (`cuda_c/graphs/`).

A model's loop gives its calls the same memory again and again: parameters stay where they are, and torch's
allocator returns the same blocks, in each round or, where tensors are small, in each of the rounds of a
longer cycle (a training loop at 96 × 256 in bfloat16 had 16 sets of addresses). A call that is kept
(`fgn.native.repeated`) has a `Replays`. It captures the call's launches when the same addresses come again,
after kernels have been compiled for the call (`fgn.native.jit`), and replays them from then on. A capture
takes as long as a few launches, so those of a call are limited until replays have paid for them. A graph does
what the launches would do, in the same memory, so the addresses alone decide whether it is the right one. No
memory is kept for it.
"""

from __future__ import annotations

import itertools
import math
import os
import threading
import warnings
from collections.abc import Callable

from fgn.native.library import ffi

# No capture before a call has been made so often.
TIMES = 4
# A call's captures that need no replays before, and the replays that pay for a further one.
FREE_CAPTURES, REPLAYS_PER_CAPTURE = 16, 4
# The sets of addresses of a call that are remembered, and the graphs of all calls that are kept.
MOST_SETS, MOST_GRAPHS = 128, 1024

_numbers = itertools.count()
_lock = threading.Lock()
_graphs: dict[tuple, object] = {}  # by a call's number and the addresses, the oldest first


def forget():
    """Frees all graphs; calls make them again."""
    _graphs.clear()


def for_launches(library, device: int, launch: Callable[[tuple, int], None]) -> Callable[[tuple, int], None]:
    """A new `Replays`; the launch itself on the simulator, or if FGN_GRAPHS is 0."""
    return launch if device < 0 or os.environ.get("FGN_GRAPHS") == "0" else Replays(library, launch)


class Replays:
    """Runs launch(addresses, stream), or the graph that does the same.

    launch: launches a call that reads and writes at these addresses and nowhere else. replayed: how often a
    graph ran instead.
    """

    __slots__ = ("_captures", "_function", "_launch", "_launches", "_library", "_number", "_seen", "replayed")

    def __init__(self, library, launch):
        self._library, self._launch, self._number = library, launch, next(_numbers)
        self._function = ffi().cast("int (*)(void *, uintptr_t)", library.fgn_replay)
        self._seen: dict[tuple, bool] = {}  # addresses that came, the last ones at the end
        self._launches = self._captures = self.replayed = 0

    def __call__(self, addresses: tuple, stream: int):
        graph = _graphs.get((self._number, addresses))
        if graph is None:
            self._launch(addresses, stream)
            self._count(addresses)
        elif self._function(graph, stream):  # the stream is being captured, or the launch has failed
            self._launch(addresses, stream)
        else:
            self.replayed += 1

    def _count(self, addresses: tuple):
        self._launches += 1
        has_come = self._seen.pop(addresses, False)
        if len(self._seen) >= MOST_SETS:
            del self._seen[next(iter(self._seen))]
        self._seen[addresses] = True
        is_paid = self._captures < FREE_CAPTURES + self.replayed // REPLAYS_PER_CAPTURE
        if not has_come or self._launches < TIMES or not is_paid:
            return
        graph = self._captured(addresses)
        if graph is None:
            self._captures = math.inf
            return
        self._captures += 1
        with _lock:
            if len(_graphs) >= MOST_GRAPHS:
                del _graphs[next(iter(_graphs))]
            _graphs[self._number, addresses] = graph

    def _captured(self, addresses: tuple):
        """The graph, or None after a warning: then the call goes on as before, and is not captured again."""
        library, place = self._library, ffi().new("void **")
        reason = None
        if not library.fgn_begin_capture(place):
            stream = place[0]
            try:
                self._launch(addresses, int(ffi().cast("uintptr_t", stream)))
            except RuntimeError as error:
                reason = str(error)
            if not library.fgn_end_capture(stream, place) and reason is None:
                return ffi().gc(place[0], library.fgn_destroy_graph)
        reason = reason or ffi().string(library.fgn_last_error()).decode()
        warnings.warn(f"fgn: a repeated call is not replayed as a CUDA graph: {reason}", stacklevel=2)
        return None
