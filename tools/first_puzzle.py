"""Builds what the puzzles run on, and nothing else, and checks a solution of the first one:
python tools/first_puzzle.py

That is the simulator that counts and checks kernels from cells, and the headers that they include, which are
compiled once. fgn's own kernels are not needed.
"""

from __future__ import annotations

import time

from cudasim.building.library import COUNTED_SIMULATOR


def main():
    began = time.perf_counter()
    COUNTED_SIMULATOR.build()
    built = time.perf_counter()
    # fgn is imported after the compiler has run, so that a machine without one says so at once.
    from cudasim.live.kernels import kernel
    from fgn.puzzles.catalogue import TASKS
    from fgn.puzzles.judge import here, judge

    task = next(iter(TASKS.values()))
    verdict = judge(task, here(task, kernel(task.solution(), task.kernel)))
    if not verdict:
        raise SystemExit(f"the first puzzle's solution does not pass its check here:\n{verdict}")
    checked = time.perf_counter() - built
    print(f"{verdict}\nbuilt in {built - began:.0f} s, checked in {checked:.0f} s, with the imports")


if __name__ == "__main__":
    main()
