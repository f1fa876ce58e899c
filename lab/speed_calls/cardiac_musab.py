"""MusabKucuk/Cardiac-Electrophysiology-Simulation: steps of the heart's potential in float64."""

from speed_calls.calls import at, f64, positive

REPOSITORY = "MusabKucuk/Cardiac-Electrophysiology-Simulation"
SIDE = 1024


def step(version, grid, block):
    def field():
        return positive(SIDE + 2, SIDE + 2, dtype=f64)

    return at(f"src/v{version}.cu", "singleKernel", ladder="potential")[grid, block](
        lambda: (field(), field(), field(), SIDE, SIDE, 8.0, 1e-3, 0.1, 0.1, 0.1, 0.3, 0.1, 0.02)
    )


LAUNCHES = [step(2, SIDE, SIDE), step(3, SIDE, SIDE), step(4, (SIDE // 16,) * 2, (16, 16))]
