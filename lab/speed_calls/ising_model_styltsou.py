"""styltsou/ising_model_cuda: steps of an Ising model whose border is a copy of its other side."""

from speed_calls.calls import at, i32, integers, zeros

REPOSITORY = "styltsou/ising_model_cuda"
SIDE, TILE = 4096, 16


def step(version, block, shared, *tile):
    named = at(f"v{version}.cu", f"update_model_v{version}", ladder="Ising model")
    return named[(SIDE // TILE,) * 2, block, shared](
        lambda: (2 * integers(0, 2, SIDE + 2, SIDE + 2) - 1, zeros(SIDE, SIDE, dtype=i32), SIDE, *tile)
    )


LAUNCHES = [step(1, (TILE, TILE), 0), step(2, (1, 1), 0, TILE), step(3, (1, 1), 4 * (TILE + 2) ** 2, TILE)]
