"""emily-palaska/CellularAutomaton: steps of an Ising model."""

from speed_calls.calls import at, i32, integers, zeros

REPOSITORY = "emily-palaska/CellularAutomaton"
SIDE, EACH = 4096, 2


def step(version, *more):
    grid = SIDE * SIDE // 1024
    return at(f"v{version}.cu", "isingStep", ladder="Ising model")[grid, 1024](
        lambda: (2 * integers(0, 2, SIDE, SIDE) - 1, zeros(SIDE, SIDE, dtype=i32), SIDE, *more)
    )


LAUNCHES = [step(1), step(2, EACH), step(3)]
