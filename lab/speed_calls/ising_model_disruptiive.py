"""Disruptiive/Ising-Model: steps of an Ising model on a torus."""

from speed_calls.calls import at, i32, integers, zeros

REPOSITORY = "Disruptiive/Ising-Model"
SIDE, TILE = 4096, 32


def step(version, grid, block, shared=0):
    return at(f"v{version}.cu", "findSign", ladder="Ising model")[grid, block, shared](
        lambda: (2 * integers(0, 2, SIDE, SIDE) - 1, zeros(SIDE, SIDE, dtype=i32), SIDE)
    )


TILES = (SIDE // TILE, SIDE // TILE)
LAUNCHES = [
    step(1, SIDE * SIDE // 1024, 1024),
    step(2, TILES, (1, 1)),
    step(3, TILES, (32, 32), 4 * (TILE + 2) ** 2),
]
